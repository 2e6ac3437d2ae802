"""Tiny models with random weights, from configurations as they lie on the hub, only smaller."""

import json

import torch
from tests.golden.segmented import boundaries

from hotloop.models.attention.kernel_choice import Isolation
from hotloop.models.backbone import load_backbone
from hotloop.models.weights.discovery import find_model

VOCABULARY, WIDTH, LAYERS, WINDOW = 61, 32, 3, 4
_COMMON = {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "intermediate_size": 48}
_COMMON |= {"num_attention_heads": 4, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
_GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
CONFIGS = {
    "qwen3": {  # https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/config.json
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_window_layers": 28,
        "model_type": "qwen3",
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0",
        "use_cache": True,
        "use_sliding_window": False,
        **_COMMON,
        **_GROUPED,
    },
    "gemma3": {  # https://huggingface.co/google/gemma-3-270m/blob/main/config.json
        "_sliding_window_pattern": 6,
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "final_logit_softcapping": None,
        "hidden_activation": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "model_type": "gemma3_text",
        "pad_token_id": 0,
        "query_pre_attn_scalar": 8,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": WINDOW,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.55.0.dev0",
        "use_bidirectional_attention": False,
        "use_cache": True,
        **_COMMON,
        **_GROUPED,
    },
    "gemma2": {  # https://huggingface.co/google/gemma-2-2b/blob/main/config.json
        "architectures": ["Gemma2ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": 2.0,  # 50 there, which these small scores would not feel
        "bos_token_id": 2,
        "eos_token_id": 1,
        "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
        "model_type": "gemma2",
        "pad_token_id": 0,
        "query_pre_attn_scalar": 8,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "sliding_window": WINDOW,
        "torch_dtype": "float32",
        "transformers_version": "4.42.0.dev0",
        "use_cache": True,
        **_COMMON,
        **_GROUPED,
    },
    "llama": {  # https://huggingface.co/meta-llama/Llama-3.2-1B/blob/main/config.json
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "mlp_bias": False,
        "model_type": "llama",
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 32,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0",
        "use_cache": True,
        **_COMMON,
        **_GROUPED,
    },
    "roberta": {  # https://huggingface.co/FacebookAI/roberta-base/blob/main/config.json
        "architectures": ["RobertaForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-05,
        "model_type": "roberta",
        "pad_token_id": 1,
        "type_vocab_size": 1,
        **_COMMON,
    },
    "bert": {  # https://huggingface.co/google-bert/bert-base-uncased/blob/main/config.json
        "architectures": ["BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "model_type": "bert",
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0",
        "type_vocab_size": 2,
        "use_cache": True,
        **_COMMON,
    },
}
DECODERS = ("qwen3", "gemma2", "gemma3", "llama")
_AUTO = {"roberta": "AutoModelForMaskedLM", "bert": "AutoModelForMaskedLM"}


def written(folder, name, **changes):
    """Write a config.json and nothing else; a change to ... takes the key out."""
    config = {k: v for k, v in {**CONFIGS[name], **changes}.items() if v is not ...}
    if "layer_types" in config:  # one of each block
        config["layer_types"] = config["layer_types"][: config["num_hidden_layers"]]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def saved(folder, name, *, shards=None, spread=0.3, seed=0, **changes):
    """Save a model as transformers does, its weights drawn wide enough to matter."""
    import transformers

    written(folder, name, **changes)
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(seed)
    model = getattr(transformers, _AUTO.get(name, "AutoModelForCausalLM")).from_config(
        config, dtype=torch.float32
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    written(folder, name, **changes)  # as it lies on the hub, not as transformers 5 saves it
    return folder


def isolation():
    ticks = iter(range(1 << 30))
    return Isolation(clock=lambda: float(next(ticks)))


def loaded(folder, **options):
    options = {"head": False, "isolation": isolation(), "attention_dropout": 0.0, **options}
    return load_backbone(find_model(str(folder)), **options).eval()


def documents(*lengths, seed=0, low=3):
    made = torch.Generator().manual_seed(seed)
    return [torch.randint(low, VOCABULARY, (length,), generator=made) for length in lengths]


def packed(*rows):
    """Return a batch of rows of documents, each a list of id tensors, all rows equally long."""
    at = boundaries(*([len(each) for each in row] for row in rows))
    places = [torch.cat([torch.arange(len(each)) for each in row]) for row in rows]
    return {
        "input_ids": torch.stack([torch.cat(row) for row in rows]),
        "position_ids": torch.stack(places),
        "cu_seqlens": at.cu_seqlens,
        "boundaries": at,
    }


def padded(texts, *, pad=0, to=None):
    """Return a batch of a row for each text, with padding at the end."""
    width = to or max(map(len, texts))
    ids = torch.full((len(texts), width), pad)
    mask = torch.zeros(len(texts), width, dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, True
    return {"input_ids": ids, "attention_mask": mask}
