"""Writes a `gym` package over gymnasium (old step/reset/render interface) and 60 epochs for 200."""

from __future__ import annotations

import sys
from pathlib import Path

GYM = '''"""The old gym interface over gymnasium: four values a step, seeded starts, no window."""

from multiprocessing import current_process

import gymnasium
from gymnasium import Env, Space

__all__ = ["Env", "Space", "make"]


class _Old:
    """One environment with the interface of gym 0.21."""

    def __init__(self, env_id):
        self.env = gymnasium.make(env_id).unwrapped
        self.env.reset(seed=(current_process()._identity or (0,))[-1])
        self.limit = gymnasium.spec(env_id).max_episode_steps
        self.observation_space = self.env.observation_space
        self.action_space = self.env.action_space

    def reset(self):
        self.steps = 0
        return self.env.reset()[0]

    def step(self, action):
        state, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        return state, reward, terminated or truncated or self.steps >= self.limit, info

    def render(self, mode=None):
        return None

    def close(self):
        self.env.close()


def make(env_id):
    return _Old(env_id)
'''


def main(checkout: Path) -> None:
    """Write the stand-in package and shorten the run."""
    package = checkout / "gym"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(GYM)
    (package / "spaces.py").write_text(
        '"""The spaces."""\n\nfrom gymnasium.spaces import *  # noqa: F403\n'
    )
    script = checkout / "run_cartpole.py"
    script.write_text(script.read_text().replace("epochs=200,", "epochs=60,"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
