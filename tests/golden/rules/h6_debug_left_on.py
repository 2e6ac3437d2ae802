"""Golden cases of H6 debug_left_on."""

from tests.golden.cases import SCRIPT, healthy, on_gpu

from hotloop.core.case.environment import ProcessFacts

POSITIVE = [
    healthy(
        process=ProcessFacts(switches={"anomaly_detection": "True"}),
        sources={SCRIPT: "torch.autograd.set_detect_anomaly(True)\n"},
    ),
    on_gpu(process=ProcessFacts(environment={"CUDA_LAUNCH_BLOCKING": "1"})),
    on_gpu(process=ProcessFacts(switches={"deterministic_algorithms": "True"})),
]
NEGATIVE = [
    healthy(process=ProcessFacts(switches={"anomaly_detection": "False"})),
    on_gpu(process=ProcessFacts(environment={"CUDA_LAUNCH_BLOCKING": "0"})),
    healthy(  # they cost nothing here
        process=ProcessFacts(
            environment={"CUDA_LAUNCH_BLOCKING": "1"},
            switches={"deterministic_algorithms": "True"},
        )
    ),
]
