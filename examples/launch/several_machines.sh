#!/usr/bin/env bash
# Several machines without a scheduler; the same line on each of them, in any order:
#
#     FIRST=node1:29500 NODES=2 OUT=/shared/runs/first \
#       ./several_machines.sh char-lm data.path=/shared/my-text.txt training.batch_size=512
#
# FIRST is one of the machines, by a name that all of them know, with a free port. OUT lies on a
# disk that all of them share, and is an absolute path; data.path is the same on all of them.
# NODES=1:4 is elastic: the run goes on with what is left when a machine fails, and starts again
# from the last checkpoint, with more ranks, when one joins. FIRST must stay: where it fails, call
# this again everywhere. Batch, order of the samples and schedule do not depend on any of that.
# Run here: two torchrun agents on one machine, one gloo rank each (PROCESSES=1); a rank killed,
# and an agent that joins later. Not run: on cards, over a network.
set -euo pipefail

: "${FIRST:?HOST:PORT of one of the machines}" "${NODES:?how many machines, or 1:4}"
: "${OUT:?the run folder, on a disk that all machines share}"
PROCESSES=${PROCESSES:-gpu} # one for each card of this machine
RESTARTS=${RESTARTS:-3}     # how often all ranks are started again when one of them fails
export OUT
# Else torch 2.13 never tells a machine that joins later where rank 0 is (dynamic_rendezvous.py).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

# Each rank looks for itself whether there is a run to go on with, for a machine may join late. All
# of them see the same: rank 0 makes the folder only after every rank has come.
# shellcheck disable=SC2016  # $OUT and $@ are for the inner shell
exec torchrun --nnodes "$NODES" --nproc-per-node "$PROCESSES" --max-restarts "$RESTARTS" \
  --rdzv-backend c10d --rdzv-endpoint "$FIRST" --rdzv-id "${ID:-hotloop}" --no-python \
  sh -c '
    if [ -e "$OUT/run.json" ]; then exec python -m hotloop train --resume "$OUT" "$@"; fi
    exec python -m hotloop train "$@" --out "$OUT"' hotloop "$@"
