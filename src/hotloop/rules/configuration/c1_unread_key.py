"""A key of a configuration file is read by nobody, so changing it changes nothing.

Looks at: the YAML, JSON and TOML files that the project's own code loads, and which keys the code
    reads of them, which is followed from the call that loads a file; the names in other programs
    of the project.
Says so when: no program of the project names a key, and no part of the file that it stands in goes
    where keys are not named. A note: programs elsewhere may read it.
Stays silent when: a part is handed on whole (`**cfg`), gone through or read with a key that is a
    variable; the key is a name or a note; the file is mostly not read by key; a library reads the
    file too, or the file is a model's, or one of many that one line opens. A misspelt key is C3's.
Remedy: read it, or take it out.
Numbers: nothing, or training, where the key was meant.
Seen: examples/slow/config_keys.
Source: two of the five projects.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.config_files import near, unread

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """List the keys that were not read."""
    unread_settings = [setting for setting in unread(case) if near(case, setting) is None]
    if not unread_settings:
        return None
    keys = ", ".join(f'"{setting.key}"' for setting in unread_settings[:3])
    more = f" and {len(unread_settings) - 3} more" if len(unread_settings) > 3 else ""
    return Finding(
        claim=f"no program of the project reads {keys}{more} of the configuration",
        severity="note",
        places=[setting.place for setting in unread_settings if setting.place],
        evidence={
            s.key: s.value if s.value is not None else "a section" for s in unread_settings[:10]
        },
        remedies=[Remedy(text=f"take {keys}{more} out of the file, or read it in the code")],
    )


RULE = Rule(
    title="A configuration key that nobody reads",
    judge=judge,
    needs=(Needs.CONFIG, Needs.CODE),
    kind="correctness",
    known="read",
)
