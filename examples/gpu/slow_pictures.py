"""Planted for a GPU: pictures are prepared one by one in the main process."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Pictures(Dataset):
    def __init__(self):
        bright = 25 * (torch.arange(2048, dtype=torch.uint8) % 10)
        noise = torch.randint(25, (2048, 3, 160, 160), dtype=torch.uint8)
        self.pictures = noise + bright[:, None, None, None]

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index].float() / 255
        picture = (picture - picture.mean((1, 2), keepdim=True)) / picture.std()
        picture = nn.functional.interpolate(picture[None], 224, mode="bicubic")[0]  # FAULT: D28
        return picture, index % 10


if __name__ == "__main__":
    loader = DataLoader(Pictures(), batch_size=64, shuffle=True, pin_memory=True)
    layers, channels = [], 3
    for wide in (64, 128, 256, 256):
        layers += [nn.Conv2d(channels, wide, 3, 2, 1), nn.BatchNorm2d(wide), nn.ReLU()]
        channels = wide
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(12):
        for x, y in loader:
            x = x.cuda(non_blocking=True).to(memory_format=torch.channels_last)
            y = y.cuda(non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
