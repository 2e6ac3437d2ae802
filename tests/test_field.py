"""What the doctor said rightly of public scripts, it still says of their recorded observations.

`python -m benchmarks.field WAVE CHECKOUTS --record` keeps them, without the scripts' code.
"""

import json
import re

import pytest
from benchmarks.field.__main__ import KEPT_CASES, said

from hotloop.core.case.case import Case

# The place that the verdict names, where a reader found it right (docs/field.md); None: silent.
RIGHT = {
    "a2c_basic": "a2c_discrete.py:40",
    "anime_dcgan": "train.py:44",
    "autoencoder_user": "Autoencoder.py:16",
    "char_rnn_user": None,
    "chatbot": "model.py:53",
    "cleanrl_dqn": None,
    "deepfm_criteo": "DeepFM.py:163",
    "diffusiongpt": None,
    "espcn_h5": "datasets.py:11",
    "ex_gat": "main.py:125",
    "ex_vae": "main.py:37",
    "ex_wlm": None,
    "flan_t5_dialog": "Fullfinetune.py:75",
    "flownav": "flow_matching.py:169",
    "gpt2_lora_user": None,
    "gru4rec_seq2rec": "optimizer.py:23",
    "har_holding": "utils.py:137",
    "hf_olora": None,
    "image_similarity": "torch_model.py:9",
    "learn_gpt": "gpt.py:45",
    "kws_mlp": "__init__.py:63",
    "lightning_mnist3_user": "dm.py:18",
    "lstm_stock": None,
    "mini_gpt_bpe": "mini_gpt_bpe.py:301",
    "ml_lstm_csv": "train_LSTM.py:55",
    "nanogpt": None,
    "ncf_mlp": "MLP.py:155",
    "neural_processes_flow": "train_flow.py:85",
    "primers_translation": "train.py:146",
    "pygcn": "layers.py:32",
    "road_marking_unet": "train.py:96",
    "segm_unet": None,
    "sign_keypoints": "train_model.py:96",
    "simclr": "run.py:77",
    "speech_lightning": "dataset.py:560",
    "steering_user": "train.py:32",
    "svm_pytorch": None,
    "streamad_dl": "train.py:93",
    "tnt_train_unit": "train_unit_example.py:55",
    "trl_sft": "sft_qwen.py:10",
    "vae_celeba": None,
    "yaml_dqn": "network.py:27",
    "yunjey_lm": None,
}
RECORDED = sorted(path.stem for path in KEPT_CASES.glob("*.json"))


def kept(name: str) -> Case:
    return Case.from_json(json.loads((KEPT_CASES / f"{name}.json").read_text()))


@pytest.mark.parametrize("name", RECORDED)
def test_no_code_and_no_path_of_a_machine_is_kept(name):
    assert not kept(name).sources
    text = (KEPT_CASES / f"{name}.json").read_text()
    assert not re.search(r'"/(?!field/|packages/|python/)[^"]*\.py"', text)


@pytest.mark.parametrize("name", RIGHT)
def test_what_was_right_is_said_again(name):
    verdict, place = said(kept(name)), RIGHT[name]
    if place is None:
        assert not verdict["loud"]
        return
    file, line = place.split(":")
    assert [file, int(line)] in verdict["places"]
