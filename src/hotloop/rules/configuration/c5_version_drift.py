"""The installed versions ignore something the script asks for, or will drop it.

Looks at: the warnings of torch and its libraries, and calls of known old names in the code.
Says so when: a warning says that something is ignored or has no effect. A note, where a name is
    deprecated.
Stays silent when: nothing of it is there; an argument that is the default already does no harm.
Remedy: the new name, or nothing at all.
Numbers: nothing, but where an ignored argument was meant.
Seen: examples/planted/asked_in_vain.py.
Source: the warnings of torch 2.13 itself.
"""

import ast
import re

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation, code_edit
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

_IGNORED = re.compile(r"\b(ignored|ignoring|has no effect|have no effect|no longer)\b", re.I)
_OLD = {  # each warns on torch 2.13
    "torch.cuda.amp.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cuda.amp.custom_fwd": 'torch.amp.custom_fwd(device_type="cuda")',
    "torch.backends.cuda.sdp_kernel": "torch.nn.attention.sdpa_kernel(...)",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_(...)",
    "torch.set_default_tensor_type": "torch.set_default_dtype(...)",
}


def judge(case: Case) -> Finding | None:
    """Read the warnings, then the code."""
    ignored = [text for text in case.process.warnings if _IGNORED.search(text)]
    old = _deprecated_calls(case)
    if not ignored and not old:
        return None
    name, new = next(iter(old.values())) if old else ("", "")
    first = " ".join(ignored[0].split()) if ignored else ""
    version = case.hardware.versions.get("torch", "this version")
    return Finding(
        claim=f"a library says that it ignores something: {first[:120].rstrip('.')}"
        if ignored
        else f"{name} is deprecated in torch {version}",
        severity="warn" if ignored else "note",
        known="proved" if ignored else "read",
        places=list(old),
        evidence={name: f"now {new}" for name, new in old.values()},
        remedies=[
            Remedy(text="take out what is ignored, or set what the warning names")
            if ignored
            else code_edit(f"write {new}")
        ],
    )


def _deprecated_calls(case: Case) -> dict[SourceLocation, tuple[str, str]]:
    """Return the calls of deprecated names, each with its name and the replacement."""
    old_calls = {}
    for module, node in parse(case.sources).nodes():
        name = module.name(node) if isinstance(node, ast.Call) else ""
        if name in _OLD:
            old_calls[module.place(node)] = (name, _OLD[name])
    return old_calls


RULE = Rule(
    title="The installed version ignores or deprecates an argument",
    judge=judge,
    needs=(Needs.CODE,),
    kind="correctness",
    known="proved",
)
