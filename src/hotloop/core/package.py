"""The version of hotloop and the folder of its sources. Everything that counts folders starts here.

It imports nothing of hotloop, and nobody inside imports the root of the package: the root names the
library, which would tie all packages into one loop.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["INSIDE", "ROOT", "__version__"]

__version__ = "0.1.0"
ROOT: Final = Path(__file__).parents[1]
INSIDE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
