"""A batch of 64 signals of several lengths goes through a model one signal at a time."""

import torch
from torch import nn

torch.manual_seed(0)
signals = [torch.randn(16, 40 + 8 * (n % 3)) for n in range(2048)]
kinds = torch.tensor([float(signal[0, :8].sum() > 0) for signal in signals])


class Detector(nn.Module):
    """Scores a signal of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv1d(16, 32, 5, padding=2)
        self.hidden, self.score = nn.Linear(32, 64), nn.Linear(64, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Return the score of one signal [16, T]."""
        found = torch.relu(self.filters(signal)).amax(dim=1)
        return self.score(torch.relu(self.hidden(found))).squeeze()


model = Detector()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for update in range(200):
    chosen = torch.randint(len(signals), (64,))
    scores = torch.stack([model(signals[index]) for index in chosen.tolist()])
    loss = nn.functional.binary_cross_entropy_with_logits(scores, kinds[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 50 == 0:
        print(update, round(loss.item(), 4))
