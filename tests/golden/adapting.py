"""Tiny models of transformers to put adapters on, with PEFT's beside them as the oracle."""

import json

import torch
from safetensors.torch import save_file

from hotloop.models.adapters.attach import adapted
from hotloop.models.adapters.peft_files import CONFIG, TENSORS, adapter_state

VOCABULARY, LABELS = 61, 3
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 8}
NAMES = ("qwen3", "gemma3", "roberta")
# PEFT reads an attribute that transformers 5.23 calls deprecated
QUIET = "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"


def tiny(name, seed=0, **changes):
    """Return a language model, or for RoBERTa a classifier, the same one for the same seed."""
    import transformers

    torch.manual_seed(seed)
    if name == "qwen3":
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**{**_GROUPED, **changes}))
    elif name == "gemma3":
        about = transformers.Gemma3TextConfig(
            **{**_GROUPED, **changes}, query_pre_attn_scalar=8, sliding_window=4
        )
        model = transformers.Gemma3ForCausalLM(about)
    else:
        about = transformers.RobertaConfig(**{**_COMMON, **changes}, num_labels=LABELS)
        model = transformers.RobertaForSequenceClassification(about)
    with torch.no_grad():
        for parameter in model.parameters():  # wide enough to matter
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def ids(seed=0, rows=3, length=9):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, (rows, length), generator=made)


def logits(model, seed=0):
    with torch.no_grad():
        return model(input_ids=ids(seed)).logits


def loss_of(model, seed):
    batch = ids(seed)
    of_tokens = model.config.model_type != "roberta"
    labels = batch if of_tokens else batch[:, 0] % LABELS
    return model(input_ids=batch, labels=labels).loss


def stirred(model, seed=1, by=0.05):
    """Move everything that is trained away from where it began."""
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(by * torch.randn(parameter.shape, generator=made))
    return model


def written(model, folder, **about):
    """Put the model's adapters into a folder, as the engine does through core.storage.files."""
    state = adapter_state(model, **about)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(state.config))
    save_file({k: v.contiguous() for k, v in state.tensors.items()}, folder / TENSORS)
    return folder


def copied_to_peft(model, peft_model):
    """Give PEFT's layers the values of ours."""
    theirs = dict(peft_model.named_parameters())
    count = 0
    with torch.no_grad():
        for name, layer in adapted(model).items():
            for key, value in layer.trained().items():
                first, _, rest = key.partition(".")
                ends = f"{first}.default{'.' + rest if rest else ''}"
                found = f"base_model.model.{name}.{ends}"
                found = found if found in theirs else f"{found}.weight"  # magnitudes in memory
                theirs[found].copy_(value)
                count += 1
    assert count == sum(p.requires_grad for p in theirs.values())
    return peft_model
