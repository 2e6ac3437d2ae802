import numpy as np


class PoleBatch:
    """N cart-poles at once (the equations of Barto, Sutton & Anderson), with automatic reset."""

    def __init__(self, n, max_steps, rng):
        self.n, self.max_steps, self.rng = n, max_steps, rng
        self.s = self._fresh(n)
        self.age = np.zeros(n, np.int64)
        self.score = np.zeros(n)

    def _fresh(self, k):
        return self.rng.uniform(-0.05, 0.05, (k, 4))

    def reset(self):
        return self.s.astype(np.float32)

    def step(self, action):
        x, v, th, w = self.s.T
        force = np.where(action == 1, 10.0, -10.0)
        c, s = np.cos(th), np.sin(th)
        tmp = (force + 0.05 * w**2 * s) / 1.1
        acc = (9.8 * s - c * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * c**2 / 1.1))
        lin = tmp - 0.05 * acc * c / 1.1
        self.s = np.stack([x + 0.02 * v, v + 0.02 * lin, th + 0.02 * w, w + 0.02 * acc], 1)
        self.age += 1
        self.score += 1
        fell = (abs(self.s[:, 0]) > 2.4) | (abs(self.s[:, 2]) > 12 * np.pi / 180)
        cut = (self.age >= self.max_steps) & ~fell
        last = self.s.astype(
            np.float32
        )  # the observation before a reset, needed when an episode is cut off
        done = fell | cut
        finished = self.score[done].copy()
        if done.any():
            self.s[done] = self._fresh(int(done.sum()))
            self.age[done] = 0
            self.score[done] = 0
        return self.s.astype(np.float32), np.ones(self.n, np.float32), fell, cut, last, finished
