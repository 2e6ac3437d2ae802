import pytest
from tests.golden.cases import healthy
from tests.golden.configs import loaded

from hotloop.core.case.environment import Config
from hotloop.core.finding import SourceLocation
from hotloop.rules.support.config_files import ConfigKey, near, requested, settings, unread

YAML = """\
lr: 0.001
data:
  path: x
  workers: 4  # two of them are busy
rows:
  - {name: a, weight: 1}
  - {name: b, weight: 2}
lr: 0.1
"""


def keys(found: list[ConfigKey] | tuple[ConfigKey, ...]) -> list[str]:
    return [setting.key for setting in found]


def test_keys_come_dotted_with_line_and_value():
    found = settings(Config(path="c.yaml", text=YAML))
    assert keys(found)[:4] == ["lr", "data", "data.path", "data.workers"]
    assert [s.place.line for s in found[:4] if s.place] == [1, 2, 3, 4]
    assert [s.value for s in found[:4]] == ["0.001", None, "x", "4"]


def test_only_a_key_of_the_same_section_stands_twice():
    twice = [s for s in settings(Config(path="c.yaml", text=YAML)) if s.first]
    assert keys(twice) == ["lr"]
    assert (twice[0].value, twice[0].first_value) == ("0.1", "0.001")
    assert twice[0].first == SourceLocation(file="c.yaml", line=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ("c.toml", "# settings\n[a]\nb = 1  # one\n"),
        ("c.yml", "%YAML 1.1\n---\na: &x !!map\n  b: 1\n"),
    ],
)
def test_json_toml_and_all_of_yaml_are_read(name: str, text: str):
    found = settings(Config(path=name, text=text))
    assert keys(found) == ["a", "a.b"]
    assert found[1].value == "1"
    assert found[1].place is not None
    assert found[1].place.line in (3, 4)


@pytest.mark.parametrize("text", ["a: [1", "\x00", "[" * 9999, "", "- 1\n- 2\n"])
def test_what_is_no_configuration_has_no_settings(text: str):
    assert settings(Config(path="c.yaml", text=text)) == ()


def test_what_nobody_reads_is_told_section_by_section():
    text = "a: 1\nb: {c: 1, d: 2}\ne: {f: 1}\ng: {h: 1}\n"
    assert keys(unread(loaded(text, "f(cfg['a'], cfg['b']['c'])\nh(**cfg['g'])"))) == ["b.d", "e"]


@pytest.mark.parametrize(
    "code",
    [
        "f(cfg['lr'], cfg.get('decay'), cfg.pop('seed'))",
        "cfg = Namespace(**cfg)\nf(cfg.lr, cfg.decay, getattr(cfg, 'seed'))",
        "class Net:\n    def __init__(self, cfg):\n        self.cfg = cfg\n    def go(self):\n"
        "        f(self.cfg['lr'], self.cfg['decay'], self.cfg['seed'])\nNet(cfg)",
        "def g(c):\n    return c['lr'], c['decay'], c['seed']\ng(cfg)",
        "lr, decay, seed = (cfg[name] for name in ('lr', 'decay', 'seed'))\nf(cfg['lr'])",
    ],
)
def test_a_key_that_the_code_names_is_read(code: str):
    text = "lr: 1\nwarmup: 2\ndecay: 3\nseed: 4\n"
    assert keys(unread(loaded(text, code))) in (["warmup"], [])
    assert "lr" not in keys(unread(loaded(text, code)))


def test_defaults_of_a_script_are_no_reading():
    text = "lr: 1\nwarmup: 2\ndecay: 3\nseed: 4\n"
    code = "DEFAULTS = {'warmup': 0}\nf(cfg['lr'], cfg['decay'], cfg['seed'])"
    assert keys(unread(loaded(text, code))) == ["warmup"]


@pytest.mark.parametrize(
    "more",
    [
        "AdamW(**cfg['optim'])",
        "for key in cfg['optim']:\n    f(key)",
        "f(*cfg['optim'].values())",
        "name = sys.argv[1]\nf(cfg['optim'][name])",
        "f(getattr(cfg['optim'], name))",
        "library.build(cfg['optim'])",
    ],
)
def test_a_section_that_goes_where_keys_are_not_named_is_read(more: str):
    text = "lr: 1\nn: 2\noptim:\n  betas: 3\n  fancy: 4\nunused: 5\n"
    assert keys(unread(loaded(text, f"f(cfg['lr'], cfg['n'])\n{more}"))) == ["unused"]


def test_a_key_of_another_program_is_read_and_without_knowing_them_nothing_is_said():
    text, code = "lr: 1\nn: 2\ntop_k: 3\n", "f(cfg['lr'], cfg['n'])"
    assert keys(unread(loaded(text, code))) == ["top_k"]
    assert unread(loaded(text, code, elsewhere=("top_k",))) == []
    assert unread(loaded(text, code, elsewhere=None)) == []


def test_a_file_that_is_not_read_by_key_is_no_configuration():
    assert unread(loaded("cat: 0\ndog: 1\nlr: 2\n", "f(cfg['lr'])")) == []


def test_a_near_key_is_one_the_code_asks_for_in_vain_and_no_file_has():
    misspelt = loaded("lr: 1\nwarmup_step: 2\n", "f(cfg['lr'], cfg.get('warmup_steps', 0))")
    (setting,) = unread(misspelt)
    meant = near(misspelt, setting)
    assert meant is not None
    assert meant.name == "warmup_steps"
    assert [node.lineno for node in meant.asked] == [3]
    text = "lr: 1\nwarmup_step: 2\nwarmup_steps: 3\n"
    both = loaded(text, "f(cfg['lr'], cfg.get('warmup_steps', 0))")
    assert near(both, unread(both)[0]) is None


def test_the_last_of_two_keys_is_asked_for_and_unread_ones_are_not():
    found = requested(loaded("lr: 1\nlr: 2\nbatch: 3\n", "f(cfg['lr'])"), ["lr", "batch"])
    assert [setting.value for setting in found] == ["2"]
    case = healthy(requested={"model.dtype": "bfloat16"})
    assert keys(requested(case, ["dtype"])) == ["model.dtype"]
