"""Shared by the diffusion tests: a distribution small enough to know every score of it."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn


class Exact(nn.Module):
    """Answers the true log score ratios of a distribution over all texts of T characters.

    p_VT has one dim per place. By brute force: every probability under noise is a sum over all
    texts, and noise is the matrix exponential of the rate matrix.
    """

    def __init__(self, p: Tensor, transition: str) -> None:
        super().__init__()
        self.transition, self.vocabulary, self.context = transition, p.shape[0], p.dim()
        self.p = p.double() / p.sum()
        self.texts = torch.tensor(list(product(range(self.vocabulary), repeat=self.context)))

    def kernels(self, sigma: Tensor) -> Tensor:
        """p(y | x) in [B, x, y]; dp/dsigma = Q p, where the columns of Q sum to 0."""
        size = self.vocabulary
        if self.transition == "uniform":
            rates = torch.full((size, size), 1 / size, dtype=torch.float64) - torch.eye(size)
        else:
            rates = -torch.eye(size + 1, dtype=torch.float64)
            rates[size] += 1
        return torch.matrix_exp(sigma.double()[:, None, None] * rates).mT

    def likely(self, ids: Tensor, sigma: Tensor) -> Tensor:
        """p(ids | text) of each place in [B, texts, T]."""
        rows = torch.arange(len(ids))[:, None, None]
        return self.kernels(sigma)[rows, self.texts, ids[:, None]]

    def forward(self, ids: Tensor, sigma: Tensor) -> Tensor:
        likely, p = self.likely(ids, sigma), self.p.flatten()
        places = set(range(self.context))
        known = torch.stack(  # p(text) p(all places of ids but one | text)
            [p * likely[..., list(places - {place})].prod(-1) for place in places]
        )  # [T, B, texts]
        instead = self.kernels(sigma)[:, self.texts, : self.vocabulary]  # [B, texts, T, V]
        joint = torch.einsum("tbk,bktv->btv", known, instead)
        return (joint / (likely.prod(-1) @ p)[:, None, None]).log().clamp(min=-60.0)


@pytest.fixture
def exact() -> Callable[[Tensor, str], Exact]:
    return Exact
