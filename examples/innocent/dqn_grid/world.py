import numpy as np

MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


class Garden:
    """A 5x5 garden: fetch the key, then reach the door; a puddle ends the episode."""

    N = 5
    shape = (4, 5, 5)
    n_actions = 4
    limit = 30

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        spots = self.rng.choice(self.N * self.N, 4, replace=False)
        self.me, self.key, self.door, self.puddle = [
            np.array(divmod(int(s), self.N)) for s in spots
        ]
        self.has_key, self.t = False, 0
        return self._look()

    def _look(self):
        o = np.zeros(self.shape, np.float32)
        o[0][tuple(self.me)] = 1
        o[1][tuple(self.door if self.has_key else self.key)] = 1
        o[2][tuple(self.puddle)] = 1
        o[3] = self.has_key
        return o

    def step(self, a):
        self.t += 1
        self.me = np.clip(self.me + MOVES[a], 0, self.N - 1)
        reward, dead = -0.02, False
        if (self.me == self.puddle).all():
            reward, dead = -1.0, True
        elif not self.has_key and (self.me == self.key).all():
            reward, self.has_key = 0.5, True
        elif self.has_key and (self.me == self.door).all():
            reward, dead = 1.0, True
        return self._look(), reward, dead, self.t >= self.limit
