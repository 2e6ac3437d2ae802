"""Stand-in settings for pytorch-dqn: the number of training episodes in config.yaml (no data)."""

import sys
from pathlib import Path

EPISODES = 200  # of 500; the environment is gymnasium's own CartPole


def main() -> None:
    """Shorten the training."""
    config = Path(sys.argv[1]) / "config" / "config.yaml"
    config.write_text(
        config.read_text().replace("training_episodes: 500", f"training_episodes: {EPISODES}")
    )


if __name__ == "__main__":
    main()
