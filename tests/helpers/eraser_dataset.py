"""Records in ERASER's layout, for tests."""

import json


def write_eraser(folder, documents, evidence, split="test"):
    """Write a split of ERASER with one question per document, and return its file.

    Args:
        folder: the dataset's folder.
        documents: sentences by document id, which is also the question's id.
        evidence: token ranges by document id.
        split: name of the file.
    """
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    for name, sentences in documents.items():
        (folder / "docs" / name).write_text("\n".join(sentences), encoding="utf-8")
    unread = {"query_type": None, "docids": None}
    lines = []
    for number, name in enumerate(documents):
        spans = [
            [{"docid": name, "start_token": start, "end_token": end, "text": "…"}]
            for start, end in evidence[name]
        ]
        row = {"annotation_id": name, "query": f"is it {name}", "evidences": spans}
        lines.append(unread | row | {"classification": str(number % 2 == 0)})
    path = folder / f"{split}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
