"""Golden cases of D28 slow_getitem."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

LOADER = replace(healthy().loaders[0], in_memory=False, items=(0.001,) * 64)
BUSY = wall(data_wait=30.0)
MERGE = ((SCRIPT, 60, "merge"), (SCRIPT, 85, "Texts.__getitem__"), (SCRIPT, 150, "main"))
NUMPY = ("/site-packages/numpy/lib/io.py", 3, "load")
LOOP = stack("data wait", 28.0, NUMPY, (SCRIPT, 150, "main"))
POSITIVE = [
    healthy(wall=BUSY, loaders=(LOADER,), stacks=(stack("data wait", 28.0, *MERGE),)),
    healthy(  # a library does the work, the project's __getitem__ calls it
        wall=BUSY,
        loaders=(replace(LOADER, uses_random=True),),
        stacks=(stack("data wait", 28.0, NUMPY, (SCRIPT, 85, "Images.__getitem__")),),
    ),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(LOADER,), stacks=(LOOP,)),
    healthy(
        wall=BUSY,
        loaders=(LOADER,),
        stacks=(replace(LOOP, seconds=20.0), stack("data wait", 8.0, *MERGE)),
    ),
    healthy(loaders=(LOADER,), stacks=(stack("data wait", 0.1, *MERGE),)),
]
