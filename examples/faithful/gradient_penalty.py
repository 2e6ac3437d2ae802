"""Second derivatives: a critic with a gradient penalty, two optimizers, and SGD by autograd.grad.

Corner: torch.autograd.grad with create_graph, backward through it, backward(inputs=...), a
step that no optimizer takes part in.
"""

from pathlib import Path

import torch
from torch import nn

torch.manual_seed(21)
generator = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
encoder = nn.Linear(2, 2)
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    part = torch.rand(len(real), 1)
    between = (part * real + (1 - part) * made).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(dim=1) - 1) ** 2).mean()


def real_points(count: int) -> torch.Tensor:
    angle = 6.2831853 * torch.rand(count)
    return torch.stack([angle.cos(), angle.sin()], dim=1)


for step in range(30):
    for _ in range(2):
        real, made = real_points(32), generator(torch.randn(32, 2)).detach()
        bend = penalty(real, made)
        loss = critic(made).mean() - critic(real).mean() + 10 * bend
        for_critic.zero_grad(set_to_none=True)
        loss.backward()
        for_critic.step()
    fooled = -critic(generator(torch.randn(32, 2))).mean()
    for_generator.zero_grad()
    fooled.backward(inputs=list(generator.parameters()))
    for_generator.step()

    points = real_points(16)
    error = (encoder(points).norm(dim=1) - 2).square().mean()
    slopes = torch.autograd.grad(error, list(encoder.parameters()))
    with torch.no_grad():
        for parameter, slope in zip(encoder.parameters(), slopes, strict=True):
            parameter.sub_(0.05 * slope)
    if step % 5 == 0:
        print(step, loss.item(), bend.item(), fooled.item(), error.item())

curve = torch.func.hessian(lambda point: critic(point).sum())(torch.tensor([0.3, -0.2]))
print("hessian:", curve.flatten().tolist())
Path("out").mkdir(exist_ok=True)
parts = {"generator": generator, "critic": critic, "encoder": encoder}
torch.save({name: part.state_dict() for name, part in parts.items()}, "out/penalty.pt")
