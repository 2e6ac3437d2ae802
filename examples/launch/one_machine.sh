#!/usr/bin/env bash
# One machine, all its cards:
#
#     OUT=runs/first ./one_machine.sh char-lm data.path=my-text.txt training.batch_size=512
#
# Called again, it goes on with the run in OUT; a run that is complete is left as it is.
# Run here: 2 ranks over gloo on a CPU (PROCESSES=2), stopped and called again. Not run: on cards.
set -euo pipefail

: "${OUT:?the run folder}"
PROCESSES=${PROCESSES:-gpu} # one for each card; a number on a machine without cards
RESTARTS=${RESTARTS:-3}     # how often all ranks are started again when one of them fails

if [ -e "$OUT/run.json" ]; then
  run=(--resume "$OUT" "$@")
else
  run=("$@" --out "$OUT")
fi
# --standalone takes a free port, so that a second run on this machine does not meet the first.
exec torchrun --standalone --nproc-per-node "$PROCESSES" --max-restarts "$RESTARTS" \
  -m hotloop train "${run[@]}"
