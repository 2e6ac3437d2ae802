"""Golden cases of S1 eval_or_save_outside_loop."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

from hotloop.core.case.steps_and_loaders import EvaluationSpan

LOOP = """
def main(args):
    model, optimizer = build()
    best_loss, val_losses = float("inf"), []
    for epoch in range(args.epochs):
        for x, y in train_loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
        print(f"epoch {epoch}: {loss.item():.4f}")
"""
EVERY_EPOCHS = """
    if (epoch + 1) % args.eval_every == 0:
        print("val", evaluate(model, val_loader))
"""
BEST = """
    val_loss = evaluate(model, val_loader)
    if val_loss < best_loss:
        best_loss = val_loss
        torch.save(model.state_dict(), "best.pt")
"""
APPENDED = """
    val_losses.append(evaluate(model, val_loader))
    torch.save(model.state_dict(), "last.pt")
"""
PRINTED = """
    model.eval()
    with torch.no_grad():
        val_loss = sum(criterion(model(x), y) for x, y in val_loader)
    print(f"epoch {epoch}: val loss {val_loss:.4f}")
"""
EVERY_STEPS = """
        if step % args.save_every == 0:
            save_checkpoint(model, optimizer, step)
"""
FINAL = """
    test_loss = evaluate(model, test_loader)
    print(f"trained {epoch + 1} epochs, test loss {test_loss:.4f}")
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
"""
FINAL_SWEEP = """
    results.append(evaluate(model, val_loader))
    for epoch, name in enumerate(names):
        if epoch % 2 == 0:
            evaluate(models[name], val_loader)
"""


def after(block: str):
    return healthy(sources={SCRIPT: LOOP + block})


POSITIVE = [after(block) for block in (EVERY_EPOCHS, BEST, APPENDED, PRINTED, EVERY_STEPS)]
NEGATIVE = [
    after(FINAL),
    after(FINAL_SWEEP),
    after("        val_loss = evaluate(model, val_loader)\n" + FINAL),
    *correct(),
]
EARLY = EvaluationSpan(at=1.0, seconds=0.1, step=500, batches=3)
LATE = replace(EARLY, step=1000)
KNOWN = [
    (after(BEST), "proved"),  # two epochs, and no evaluation
    (replace(after(BEST), evaluations=(LATE,)), "proved"),
    (replace(after(BEST), evaluations=(EARLY, LATE)), "read"),
    (replace(after(EVERY_STEPS), evaluations=(EARLY,)), "proved"),  # it is about saves
    (replace(after(BEST), epochs=1), "read"),
]
