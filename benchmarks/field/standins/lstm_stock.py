"""Writes standin.csv: 4500 days of a random walk in the layout of dataset_1.csv (GB2312)."""

import datetime
import random
import sys
from pathlib import Path

if __name__ == "__main__":
    rng = random.Random(11)
    day, price = datetime.date(1997, 6, 2), 1300.0
    rows = []
    while len(rows) < 4500:
        if day.weekday() < 5:
            price = max(100.0, price * (1 + rng.gauss(0.0003, 0.016)))
            rows.append(f"{day.year}/{day.month}/{day.day},{price:.2f}")
        day += datetime.timedelta(days=1)
    text = "\n".join(["时间,最高价", *reversed(rows)]) + "\n"  # newest first, as in the original
    (Path(sys.argv[1]) / "standin.csv").write_text(text, encoding="GB2312")
