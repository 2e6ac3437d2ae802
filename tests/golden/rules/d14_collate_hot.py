"""Golden cases of D14 collate_hot."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

LOADER = replace(healthy().loaders[0], collate="pack", in_memory=False)
PAD = ("/site-packages/torch/nn/utils/rnn.py", 400, "pad_sequence")
READ = stack("data wait", 5.0, (SCRIPT, 12, "Texts.__getitem__"))
POSITIVE = [
    healthy(
        wall=wall(data_wait=30.0),
        loaders=(LOADER,),
        stacks=(stack("data wait", 25.0, PAD, (SCRIPT, 17, "pack")), READ),
    ),
    healthy(
        wall=wall(data_wait=30.0),
        stacks=(stack("data wait", 25.0, (SCRIPT, 17, "Texts.collate")), READ),
        loaders=(),
    ),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=30.0), loaders=(LOADER,), stacks=(READ,)),
    healthy(  # reading takes more
        wall=wall(data_wait=30.0),
        loaders=(LOADER,),
        stacks=(
            stack("data wait", 10.0, (SCRIPT, 17, "pack")),
            stack("data wait", 20.0, (SCRIPT, 12, "Texts.__getitem__")),
        ),
    ),
    healthy(  # D4's
        wall=wall(data_wait=30.0),
        stacks=(stack("data wait", 25.0, ("/torch/_utils/collate.py", 3, "default_collate")),),
    ),
]
