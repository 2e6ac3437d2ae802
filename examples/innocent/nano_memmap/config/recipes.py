# overrides, executed by train.py and sample.py
max_iters = 150
eval_interval = 75
gradient_accumulation_steps = 2
batch_size = 12
dtype = "float32"  # no bf16 units in the office machine
# only sample.py looks at these
num_samples = 2
max_new_tokens = 250
temperature = 0.8
top_k = 20
