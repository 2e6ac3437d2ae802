"""The doctor finds each fault of the project behind task-router where it is planted back."""

import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "golden" / "router_script.py"
TRUNK_TWICE = {  # the states come from the trunk in each step, for the router and for the answer
    "        pooled = states.mean(1)\n": (
        "        pooled = self.trunk(states).mean(1)\n        again = self.trunk(states).mean(1)\n"
    ),
    "pooled_of_task = pooled +": "pooled_of_task = again +",
    "Rows(states, task, label)": "Rows(tokens, task, label)",
    "        noise = 0.01 * torch.randn(WIDTH)\n": "",
    "self.states[index] + noise": "self.states[index]",
    "(layer, 4,": "(layer, 1,",  # two minutes of it are not worth more
    "EPOCHS, BATCH, ACCUMULATION = 8,": "EPOCHS, BATCH, ACCUMULATION = 4,",
}
FAULTS = {
    "adapters not called": (
        {" + adapted[torch.arange(len(task)), task]": "",
         "        adapted = torch.stack([adapter(pooled) for adapter in self.adapters], 1)\n": ""},
        "P2",
    ),
    "trunk twice": (TRUNK_TWICE, "P3"),
    "seed reset in __getitem__": (
        {"        noise = 0.01": "        torch.manual_seed(42)\n        noise = 0.01"},
        "S8",
    ),
    "scaler unused": (
        {"scaler.scale(loss / ACCUMULATION).backward()": "(loss / ACCUMULATION).backward()",
         "                scaler.step(optimizer)\n                scaler.update()\n":
         "                optimizer.step()\n"},
        "S6",
    ),
    "scheduler against accumulation": (
        {"steps = EPOCHS * len(loader) // ACCUMULATION": "steps = EPOCHS * len(loader)"},
        "S7",
    ),
}  # fmt: skip
PLANTED = {rule for _, rule in FAULTS.values()}


def findings(preloaded, folder, changes):
    """Return the rules of the findings of `hotloop doctor` on the script with some changes."""
    text = SCRIPT.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "train.py").write_text(text)
    done = preloaded.run(
        "doctor", "--experiments", "0", "--json", "found.json", "train.py", cwd=folder
    )
    assert (folder / "found.json").is_file(), done.stderr[-2000:]
    found = json.loads((folder / "found.json").read_text())["findings"]
    return {each["rule"].partition(" ")[0]: each["severity"] for each in found}


def test_without_a_fault_none_of_them_is_found(preloaded, tmp_path):
    found = findings(preloaded, tmp_path, {})
    assert not PLANTED & found.keys(), found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(preloaded, tmp_path, fault):
    changes, rule = FAULTS[fault]
    found = findings(preloaded, tmp_path, changes)
    assert found.get(rule) in ("warn", "critical"), found
    assert PLANTED & found.keys() == {rule}
