"""Stand-in data for DSKSD/SDEN-Pytorch: its own dev dialogues, split, as train.iob is missing."""

import sys
from pathlib import Path

TRAIN, DEV = 220, 60  # dialogues


def main() -> None:
    """Write the first dialogues to train.iob and the next ones to dev.iob."""
    checkout = Path(sys.argv[1])
    kept = checkout / "data" / "dev_all.iob"
    if not kept.exists():
        kept.write_text((checkout / "data" / "dev.iob").read_text(encoding="utf-8"), "utf-8")
    dialogues = [part for part in kept.read_text("utf-8").split("\n\n") if part.strip()]
    train, dev = dialogues[:TRAIN], dialogues[TRAIN : TRAIN + DEV]
    known: dict[int, set[str]] = {1: set(), 2: set()}
    for line in "\n".join(train).split("\n"):
        fields = line.split("|||")
        if len(fields) == 3:
            known[1].update(fields[1].split())
            known[2].add(fields[2])

    def fits(dialogue: str) -> bool:
        """Tell whether all tags and intents of a dialogue are in the training part."""
        turns = [line.split("|||") for line in dialogue.split("\n")]
        users = [turn for turn in turns if len(turn) == 3]
        return all(turn[2] in known[2] and set(turn[1].split()) <= known[1] for turn in users)

    (checkout / "data" / "train.iob").write_text("\n\n".join(train) + "\n\n", "utf-8")
    dev = [dialogue for dialogue in dev if fits(dialogue)]
    (checkout / "data" / "dev.iob").write_text("\n\n".join(dev) + "\n\n", "utf-8")
    (checkout / "weight").mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
