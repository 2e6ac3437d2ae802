"""Writes working/titanic.py from the notebook, input/titanic (8020 + 3000 made-up passengers)."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

REPLACED = {  # the first line of code shows tables, the others are for relative paths and pandas 3
    "import numpy as np # linear": "display = print\nimport numpy as np # linear",
    "/kaggle/input": "../input",
    "/kaggle/working/": "./",
    "prefix='Embarked')": "prefix='Embarked', dtype='uint8')",
    "df['Embarked'].fillna(df['Embarked'].mode()[0], inplace = True)": (
        "df['Embarked'] = df['Embarked'].fillna(df['Embarked'].mode()[0])"
    ),
    "df['Age'].fillna(df['Age'].median(), inplace = True)": (
        "df['Age'] = df['Age'].fillna(df['Age'].median())"
    ),
    "df['Fare'].fillna(df['Fare'].median(), inplace = True)": (
        "df['Fare'] = df['Fare'].fillna(df['Fare'].median())"
    ),
}


def script(notebook: Path) -> str:
    """Return the cells as `jupyter nbconvert --to script` writes them."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append("\n".join(f"# {line}" for line in text.split("\n")))
        else:
            parts.append(f"# In[ ]:\n\n\n{text}")
    text = "#!/usr/bin/env python\n# coding: utf-8\n\n" + "\n\n\n".join(parts) + "\n"
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    return text


def passengers(rng: np.random.Generator, first: int, count: int) -> pd.DataFrame:
    """Return a table like Kaggle's, who survives depends on sex, class and age."""
    grade = rng.choice([1, 2, 3], count, p=[0.24, 0.21, 0.55])
    woman = rng.random(count) < 0.35
    age = np.round(np.clip(rng.normal(38 - 4 * grade, 14), 0.5, 80), 1)
    fare = np.round(rng.lognormal(4.6 - 0.75 * grade, 0.6), 4)
    score = 2.6 * woman - 1.0 * grade - 0.025 * age + 1.6 + rng.logistic(size=count)
    table = {"PassengerId": range(first, first + count), "Survived": (score > 0).astype(int)}
    table |= {"Pclass": grade, "Name": [f"Doe, Mr. No {first + k}" for k in range(count)]}
    table |= {"Sex": np.where(woman, "female", "male")}
    table |= {"Age": np.where(rng.random(count) < 0.2, np.nan, age)}
    table |= {"SibSp": rng.poisson(0.5, count), "Parch": rng.poisson(0.4, count)}
    table |= {"Ticket": rng.integers(1000, 400000, count), "Fare": fare}
    cabin = [f"{'ABCDE'[k % 5]}{k % 120}" if k % 4 == 0 else None for k in range(count)]
    port = rng.choice(["S", "C", "Q"], count, p=[0.72, 0.19, 0.09]).astype(object)
    port[:2] = None
    return pd.DataFrame(table | {"Cabin": cabin, "Embarked": port})


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    data, weights = checkout / "input" / "titanic", "model_02_07_2021_epoch_200.pt"
    kept = checkout / "input" / "titanic-model-02-07-2021"
    for folder in (data, kept, checkout / "working"):
        folder.mkdir(parents=True, exist_ok=True)
    passengers(rng, 1, 8020).to_csv(data / "train.csv", index=False)
    test = passengers(rng, 8021, 3000).drop(columns="Survived")
    test.to_csv(data / "test.csv", index=False)
    shutil.copy(checkout / weights, kept / weights)
    notebook = next(checkout.glob("*.ipynb"))
    (checkout / "working" / "titanic.py").write_text(script(notebook))
