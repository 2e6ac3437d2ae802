"""Golden cases of H22 eval_outputs_kept."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

CODE = """
def compute_metrics(predictions):
    return {"accuracy": (predictions[0].argmax(-1) == predictions[1]).mean()}

trainer = Trainer(model=model, compute_metrics=compute_metrics)
trainer.train()
"""
JOIN = ("/lib/site-packages/transformers/trainer_pt_utils.py", 86, "torch_pad_and_concatenate")
ADD = ("/lib/site-packages/transformers/trainer_pt_utils.py", 376, "EvalLoopContainer.add")
LOOP = ("/lib/site-packages/transformers/trainer.py", 3015, "Trainer.evaluation_loop")
MAIN = (SCRIPT, 6, "<module>")
POSITIVE = [
    healthy(
        wall=wall(evaluate=9.0),
        stacks=(stack("evaluate", 7.0, JOIN, ADD, LOOP, MAIN), stack("evaluate", 2.0, LOOP, MAIN)),
        sources={SCRIPT: CODE},
    )
]
NEGATIVE = [
    healthy(
        wall=wall(evaluate=9.0),
        stacks=(stack("evaluate", 9.0, LOOP, MAIN),),
        sources={SCRIPT: CODE},
    ),
    healthy(stacks=(stack("evaluate", 0.2, ADD, LOOP, MAIN),), sources={SCRIPT: CODE}),
]
