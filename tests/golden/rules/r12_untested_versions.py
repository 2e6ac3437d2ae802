"""Golden cases of R12 untested_versions."""

from dataclasses import replace

from tests.golden.cases import CPU, machine, planned

OLD = replace(CPU, versions={"torch": "2.8.1", "python": "3.12.0"})
POSITIVE = [machine(OLD), machine(replace(CPU, versions={"torch": "2.13.0", "python": "3.15.0"}))]
NEGATIVE = [
    machine(replace(CPU, versions={"torch": "2.13.0+cpu", "python": "3.11.7"})),
    machine(replace(CPU, versions={"torch": "unknown"})),
    replace(planned(), hardware=OLD),  # hotloop doctor alone says it
]
