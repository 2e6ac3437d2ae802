"""Golden cases of G13 recompiles."""

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts

POSITIVE = [
    healthy(process=ProcessFacts(graphs=9, late_graphs=6, compile_seconds=60.0)),
    healthy(
        process=ProcessFacts(
            graphs=3, graph_breaks=2, break_reasons=("call to print", "Tensor.item")
        )
    ),
    healthy(
        process=ProcessFacts(graphs=8, warnings=("torch._dynamo hit config.recompile_limit (8)",))
    ),
]
NEGATIVE = [healthy(process=ProcessFacts(graphs=1, compile_seconds=10.0)), healthy()]
