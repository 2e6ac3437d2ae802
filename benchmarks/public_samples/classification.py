"""Sets of single texts with a label: SST-2, AG News, CLINC150."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import label, value
from benchmarks.public_samples.writing import HUB, LIBRARY, portions, tab_separated

if TYPE_CHECKING:
    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["SST2_COLUMNS", "ag_news", "clinc150", "sst2"]

SST2_COLUMNS = {
    "sentence": value(),
    "label": label("negative", "positive"),
    "idx": value("int32"),
}
THEMES = ("World", "Sports", "Business", "Sci/Tech")
TEXTS_OF_A_THEME = 150
# In the order of datasets/clinc_oos/dataset_infos.json, github huggingface/datasets@2.4.0.
NAMES_OF_INTENTS = """
restaurant_reviews nutrition_info account_blocked oil_change_how time weather redeem_rewards
interest_rate gas_type accept_reservations smart_home user_name report_lost_card repeat whisper_mode
what_are_your_hobbies order jump_start schedule_meeting meeting_schedule freeze_account what_song
meaning_of_life restaurant_reservation traffic make_call text bill_balance improve_credit_score
change_language no measurement_conversion timer flip_coin do_you_have_pets balance tell_joke
last_maintenance exchange_rate uber car_rental credit_limit oos shopping_list expiration_date
routing meal_suggestion tire_change todo_list card_declined rewards_balance change_accent vaccines
reminder_update food_last change_ai_name bill_due who_do_you_work_for share_location
international_visa calendar translate carry_on book_flight insurance_change todo_list_update
timezone cancel_reservation transactions credit_score report_fraud spending_history directions
spelling insurance what_is_your_name reminder where_are_you_from distance payday flight_status
find_phone greeting alarm order_status confirm_reservation cook_time damaged_card reset_settings
pin_change replacement_card_duration new_card roll_dice income taxes date who_made_you pto_request
tire_pressure how_old_are_you rollover_401k pto_request_status how_busy application_status recipe
calendar_update play_music yes direct_deposit credit_limit_change gas pay_bill ingredients_list
lost_luggage goodbye what_can_i_ask_you book_hotel are_you_a_bot next_song change_speed plug_type
maybe w2 oil_change_when thank_you shopping_list_update pto_balance order_checks travel_alert
fun_fact sync_device schedule_maintenance apr transfer ingredient_substitution calories
current_location international_fees calculator definition next_holiday update_playlist mpg
min_payment change_user_name restaurant_suggestion travel_notification cancel pto_used
travel_suggestion change_volume
"""
INTENTS = NAMES_OF_INTENTS.split()


def sst2(samples: Samples, sources: Sources) -> dict[str, list[Row]]:
    """Write SST-2 in two forms, and return its splits with the hub's columns.

    The shapes are those of gluebenchmark.com's SST-2.zip and of the hub's nyu-mll/glue.
    """
    train, validation, test = portions(sources.reviews, 400, 120, 120)
    splits = {"train": _labelled(train), "validation": _labelled(validation)}
    splits["test"] = [
        {"sentence": row["text"].strip(), "label": -1, "idx": number}
        for number, row in enumerate(test)
    ]
    _sst2_tables(samples, splits)
    samples.write_hub("sst2-hub-parquet", splits, SST2_COLUMNS, folder="sst2", config="sst2")
    samples.describe(
        "sst2-hub-parquet",
        name="SST-2",
        form="hub parquet (nyu-mll/glue, config sst2)",
        kind="classification",
        published_by=f"{HUB}nyu-mll/glue",
        notes="sentence,label ClassLabel,idx int32; test label is -1",
    )
    return splits


def _labelled(rows: list[Row]) -> list[Row]:
    """Return rows with a blank after each sentence, as GLUE has it where there is a label."""
    return [
        {"sentence": row["text"].strip() + " ", "label": row["label"], "idx": number}
        for number, row in enumerate(rows)
    ]


def _sst2_tables(samples: Samples, splits: dict[str, list[Row]]) -> None:
    """Write SST-2 as GLUE's folder of tables, whose test part has numbers instead of labels."""
    for split, file in (("train", "train"), ("validation", "dev")):
        rows = [(row["sentence"], row["label"]) for row in splits[split]]
        content = tab_separated(["sentence", "label"], rows)
        samples.write(f"sst2-glue-tsv/SST-2/{file}.tsv", content)
    rows = [(row["idx"], row["sentence"]) for row in splits["test"]]
    samples.write("sst2-glue-tsv/SST-2/test.tsv", tab_separated(["index", "sentence"], rows))
    samples.describe(
        "sst2-glue-tsv",
        name="SST-2",
        form="GLUE TSV folder",
        kind="classification",
        published_by=f"gluebenchmark.com SST-2.zip; {LIBRARY} datasets/glue/glue.py",
        notes="train/dev: sentence,label; test: index,sentence without labels; trailing blank "
        "after each sentence; unquoted TSV",
        within="SST-2",
    )


def ag_news(samples: Samples, sources: Sources) -> None:
    """Write AG News in two forms; four sources stand for the four themes.

    The shapes are those of the hub's fancyzhx/ag_news and of github mhjabreel/CharCnn_Keras.
    """
    articles = _articles(sources)
    samples.draw.shuffle(articles)
    train, test = portions(articles, 400, 160)
    splits = {
        split: [{"text": f"{title} {text}", "label": theme} for theme, title, text in rows]
        for split, rows in (("train", train), ("test", test))
    }
    columns = {"text": value(), "label": label(*THEMES)}
    samples.write_hub("agnews-hub-parquet", splits, columns, folder="data")
    samples.describe(
        "agnews-hub-parquet",
        name="AG News",
        form="hub parquet (fancyzhx/ag_news)",
        kind="classification",
        published_by=f"{HUB}fancyzhx/ag_news; columns: {LIBRARY} datasets/ag_news/ag_news.py",
        notes="text,label 0..3; train+test only, no validation; folder data/ from memory",
    )
    _ag_news_tables(samples, {"train": train, "test": test})


def _articles(sources: Sources) -> list[tuple[int, str, str]]:
    """Return (theme, title, text); the title is the beginning of the text, cut at a blank."""
    themes = (
        [row["en"] for row in sources.translations if len(row["en"]) > 60],
        [f"{row['premise']} {row['hypothesis']}" for row in sources.inferences],
        [row["text"].strip() for row in sources.reviews[2000:3000]],
        [f"{row['title']}. {row['source'][0]}" for row in sources.papers],
    )
    found = []
    for theme, texts in enumerate(themes):
        for text in texts[:TEXTS_OF_A_THEME]:
            shortest = min(len(text) // 3, 40)
            blank = text.find(" ", shortest)
            end = blank if blank > 0 else shortest
            found.append((theme, text[:end].strip(), text[end:].strip()))
    return found


def _ag_news_tables(samples: Samples, splits: dict[str, list[tuple[int, str, str]]]) -> None:
    """Write AG News as its first publisher does: quoted fields, no header, classes from 1."""
    for split, rows in splits.items():
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([(theme + 1, title, text) for theme, title, text in rows])
        samples.write(f"agnews-csv/ag_news_csv/{split}.csv", buffer.getvalue())
    samples.write("agnews-csv/ag_news_csv/classes.txt", "\n".join(THEMES) + "\n")
    samples.write(
        "agnews-csv/ag_news_csv/readme.txt",
        "AG's News Topic Classification Dataset\n\n"
        "The file classes.txt contains a list of classes corresponding to each label.\n",
    )
    samples.describe(
        "agnews-csv",
        name="AG News",
        form="original CSV, no header",
        kind="classification",
        published_by="github mhjabreel/CharCnn_Keras data/ag_news_csv; "
        f"{LIBRARY} datasets/ag_news/ag_news.py",
        notes="all fields quoted: class index 1..4, title, description; classes.txt holds the "
        "names; train+test",
        within="ag_news_csv",
    )


def clinc150(samples: Samples, sources: Sources) -> None:
    """Write CLINC150 in two forms; a graph that questions are about stands for an intent.

    The shapes are those of github clinc/oos-eval and of the hub's clinc/clinc_oos.
    """
    parts = _intents(sources)
    samples.write("clinc150-json/data_full.json", json.dumps(parts, indent=4))
    samples.describe(
        "clinc150-json",
        name="CLINC150",
        form="data_full.json",
        kind="classification",
        published_by="github clinc/oos-eval data/data_full.json",
        notes="one JSON object of six lists (oos_val, val, train, oos_test, test, oos_train) of "
        "[text, intent]; content: graph questions, 15 of the 150 intent names",
    )
    splits = {
        split: [
            {"text": text, "intent": INTENTS.index(intent)}
            for text, intent in parts[part] + parts[f"oos_{part}"]
        ]
        for split, part in (("train", "train"), ("validation", "val"), ("test", "test"))
    }
    columns = {"text": value(), "intent": label(*INTENTS)}
    samples.write_hub("clinc150-hub-parquet", splits, columns, folder="plus", config="plus")
    samples.describe(
        "clinc150-hub-parquet",
        name="CLINC150",
        form="hub parquet (clinc/clinc_oos, config plus)",
        kind="classification",
        published_by=f"{HUB}clinc/clinc_oos; names from {LIBRARY} "
        "datasets/clinc_oos/dataset_infos.json",
        notes="label column is called intent; 151 ClassLabel names, oos is number 42; not all "
        "names occur here",
    )


def _intents(sources: Sources) -> dict[str, list[list[str]]]:
    """Return the lists of [text, intent] in the order of the published file."""
    databases = sorted({row["database"] for row in sources.graph_questions if row["database"]})
    parts: dict[str, list[list[str]]] = {"train": [], "val": [], "test": []}
    for number, database in enumerate(databases):
        intent = INTENTS[(number * 9 + 3) % len(INTENTS)]
        texts = [
            row["question"].lower().rstrip("?").strip()
            for row in sources.graph_questions
            if row["database"] == database
        ]
        for part, some in zip(parts, portions(texts, 25, 9, 10), strict=True):
            parts[part] += [[text, intent] for text in some]
    outside = [[row["en"].lower(), "oos"] for row in sources.translations[2000:2090]]
    return {
        "oos_val": outside[:30],
        "val": parts["val"],
        "train": parts["train"],
        "oos_test": outside[30:60],
        "test": parts["test"],
        "oos_train": outside[60:],
    }
