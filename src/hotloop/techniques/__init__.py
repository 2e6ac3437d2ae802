"""Every technique, in one list. To add one: write its file, import it here, add it to ALL."""

from hotloop.core.errors import PlanError, did_you_mean
from hotloop.techniques import (
    activation_checkpointing,
    activation_offload,
    adamw_8bit,
    async_checkpoint,
    autocast_bf16,
    autocast_fp16,
    channels_last,
    compile,
    cuda_graphs,
    cudnn_benchmark,
    ddp,
    deepspeed,
    device_prefetch,
    dynamic_padding,
    fp8,
    frozen_16bit,
    fsdp2,
    fused_adamw,
    fused_rms_norm,
    gc_freeze,
    int8_mixed_precision,
    kept_memory,
    lagged_loss_read,
    length_bucketing,
    loader_workers,
    matmul_onednn,
    micro_batch,
    sample_cache,
    sdpa,
    tf32,
    threads,
    token_budget,
    trained_16bit,
    vectorised_reads,
)
from hotloop.techniques.base import Technique

__all__ = ["ALL", "get"]

ALL: tuple[Technique, ...] = (
    activation_checkpointing.TECHNIQUE,
    activation_offload.TECHNIQUE,
    adamw_8bit.TECHNIQUE,
    async_checkpoint.TECHNIQUE,
    autocast_bf16.TECHNIQUE,
    autocast_fp16.TECHNIQUE,
    channels_last.TECHNIQUE,
    compile.TECHNIQUE,
    cuda_graphs.TECHNIQUE,
    cudnn_benchmark.TECHNIQUE,
    ddp.TECHNIQUE,
    deepspeed.TECHNIQUE,
    device_prefetch.TECHNIQUE,
    dynamic_padding.TECHNIQUE,
    fp8.TECHNIQUE,
    frozen_16bit.TECHNIQUE,
    fsdp2.TECHNIQUE,
    fused_adamw.TECHNIQUE,
    fused_rms_norm.TECHNIQUE,
    gc_freeze.TECHNIQUE,
    int8_mixed_precision.TECHNIQUE,
    kept_memory.TECHNIQUE,
    lagged_loss_read.TECHNIQUE,
    length_bucketing.TECHNIQUE,
    loader_workers.TECHNIQUE,
    matmul_onednn.TECHNIQUE,
    micro_batch.TECHNIQUE,
    sample_cache.TECHNIQUE,
    sdpa.TECHNIQUE,
    tf32.TECHNIQUE,
    threads.TECHNIQUE,
    token_budget.TECHNIQUE,
    trained_16bit.TECHNIQUE,
    vectorised_reads.TECHNIQUE,
)
_BY_ID = {technique.id: technique for technique in ALL}


def get(id: str) -> Technique:
    """Return the technique with this `id`; raise PlanError, which lists all ids, if unknown."""
    if id not in _BY_ID:
        near, known = did_you_mean(id, _BY_ID), ", ".join(_BY_ID)
        raise PlanError(f"no technique is called {id!r}{near} (there are: {known})")
    return _BY_ID[id]
