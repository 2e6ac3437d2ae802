"""Golden cases of H17 metrics_cpu."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

SKLEARN = ("/usr/lib/python3/dist-packages/sklearn/metrics/_ranking.py", 500, "roc_auc_score")
FILTER = ("/usr/lib/python3/dist-packages/scipy/signal/_signaltools.py", 9, "lfilter")
LOADER = "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py"
READ = (FILTER, (SCRIPT, 12, "Sounds.__getitem__"), (LOADER, 700, "__next__"), (SCRIPT, 80, "f"))
MODULE = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
CALL = ((MODULE, 1784, "_call_impl"), (SCRIPT, 60, "evaluate"), (SCRIPT, 70, "log_metrics"))
POSITIVE = [
    healthy(
        wall=wall(after_step=4.0),
        stacks=(stack("after step", 3.0, SKLEARN, (SCRIPT, 55, "main")),),
    ),
    healthy(
        wall=wall(after_step=4.0),
        stacks=(
            stack("after step", 2.0, (SCRIPT, 20, "best_f1"), (SCRIPT, 55, "MetricLogger.log")),
            stack("after step", 1.0, (SCRIPT, 25, "auc"), (SCRIPT, 56, "MetricLogger.log")),
        ),
    ),
    healthy(wall=wall(evaluate=4.0), stacks=(stack("evaluate", 3.0, SKLEARN, (SCRIPT, 80, "f")),)),
]
NEGATIVE = [
    healthy(wall=wall(after_step=4.0), stacks=(stack("after step", 3.0, (SCRIPT, 55, "main")),)),
    healthy(stacks=(stack("after step", 0.02, SKLEARN, (SCRIPT, 55, "main")),)),
    healthy(wall=wall(evaluate=4.0), stacks=(stack("evaluate", 3.0, *READ),)),
    healthy(wall=wall(after_step=4.0), stacks=(stack("after step", 3.0, FILTER),)),
    # a function named after metrics evaluates the model
    healthy(wall=wall(evaluate=4.0), stacks=(stack("evaluate", 3.0, *CALL),)),
    healthy(wall=wall(data_wait=4.0), stacks=(stack("data wait", 3.0, SKLEARN),)),
]
