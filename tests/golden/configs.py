"""A case whose script loads a file of settings by itself."""

from typing import Any

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.case import Case
from hotloop.core.case.environment import Config
from hotloop.core.finding import SourceLocation

_LOADS = {
    "yaml": "import yaml\ncfg = yaml.safe_load(open({name!r}))\n",
    "json": "import json\ncfg = json.load(open({name!r}))\n",
    "toml": "import tomllib\ncfg = tomllib.load(open({name!r}, 'rb'))\n",
}


def loaded(
    text: str,
    code: str,
    *,
    name: str = "c.yaml",
    elsewhere: tuple[str, ...] | None = (),
    **changes: Any,
) -> Case:
    """Return a case whose script loads a file as `cfg` in its second line and goes on with `code`.

    `elsewhere` are words of the file that stand in other programs of the project.
    """
    config = Config(
        path=name, text=text, place=SourceLocation(file=SCRIPT, line=2), elsewhere=elsewhere
    )
    script = _LOADS[name.rpartition(".")[2]].format(name=name) + code
    return healthy(configs=(config,), sources={SCRIPT: script}, **changes)
