"""Golden cases of S9 metric_arguments."""

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

HEAD = """
import torch.nn.functional as F
from torch import nn
from sklearn import metrics
from sklearn.metrics import accuracy_score, precision_score, confusion_matrix
criterion = nn.BCEWithLogitsLoss()
"""


def line(text: str):
    return healthy(sources={SCRIPT: HEAD + text})


POSITIVE = [
    line("precision = precision_score(y_pred, y_true, average='macro')"),
    line("print(metrics.recall_score(preds.cpu().numpy(), labels.cpu().numpy()))"),
    line("loss = F.kl_div(targets, model_logits, reduction='batchmean')"),
    line("loss = criterion(labels.float(), logits.squeeze(1))"),
    line("loss = F.cross_entropy(batch['labels'], outputs[0])"),
    line("matrix = confusion_matrix(all_predictions[0], batch['x'].labels)"),
]
NEGATIVE = [
    line("precision = precision_score(y_true, y_pred)"),
    line("accuracy = accuracy_score(y_pred, y_true)"),  # symmetric
    line("precision = precision_score(y_pred=y_pred, y_true=y_true)"),
    line("precision = precision_score(a, b); loss = criterion(out, y)"),
    line("loss = criterion(logits, labels); loss = F.cross_entropy(outputs[0], targets.view(-1))"),
    line("loss = F.mse_loss(target, prediction)"),
    line("loss = F.kl_div(student_logits, teacher_logits)"),
    *correct(),
]
