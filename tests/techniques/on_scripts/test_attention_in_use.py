import torch
from torch import nn
from torch.nn import functional

from hotloop.techniques.on_scripts.attention_in_use import attention_calls


def test_each_call_is_named_by_its_kernel_and_the_function_is_put_back() -> None:
    plain, q = functional.scaled_dot_product_attention, torch.randn(1, 2, 4, 8)
    with attention_calls() as seen:
        functional.scaled_dot_product_attention(q, q, q)
        nn.MultiheadAttention(8, 2)(q[0], q[0], q[0], need_weights=False)
    assert len(seen) == 2
    assert set(seen) <= {"flash", "math"}
    assert functional.scaled_dot_product_attention is plain


def test_attention_written_out_by_hand_is_not_seen() -> None:
    q = torch.randn(2, 4, 8)
    with attention_calls() as seen:
        torch.softmax(q @ q.mT, -1) @ q
    assert seen == []
