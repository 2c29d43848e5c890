"""make_arrow.py TO - small Arrow files of datasets and pyarrow, and the same rows as JSON lines (README.md)."""
import json
import os
import sys

import datasets
import pyarrow as pa
import pyarrow.feather as feather

os.chdir(sys.argv[1])
rows = [{"text": f"Zeile {i} \u00e4\n\"q\"", "n": i * (-1) ** i, "x": i / 4, "ok": i % 2 == 0, "meta": {"text": f"meta {i}", "id": i},
         "sents": [f"s{i}.{k}" for k in range(i % 3)], "messages": [{"role": "user", "content": f"hi {i}"}, {"role": "assistant", "content": ""}],
         "some": None if i % 3 else "there"} for i in range(7)]
with open("rows.jsonl", "w") as f:
    f.writelines(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in rows)
datasets.Dataset.from_list(rows).save_to_disk("saved", num_shards=2)
table = pa.Table.from_pylist(rows)
with pa.ipc.new_file("file.arrow", table.schema) as w:
    w.write_table(table, max_chunksize=3)
feather.write_feather(table.select(["text"]), "compressed.feather", compression="lz4")
# wider types, and columns that JSON has no word for, which are left out
wide = table.set_column(0, "text", table["text"].cast(pa.large_string())).set_column(1, "n", table["n"].cast(pa.int8()))
wide = wide.set_column(2, "x", table["x"].cast(pa.float32())).append_column("raw", pa.array([b"x"] * 7))
wide = wide.append_column("word", table["some"].dictionary_encode()).append_column("at", pa.array([1] * 7, pa.timestamp("ms")))
with pa.ipc.new_stream("stream.arrow", wide.schema) as w:
    w.write_table(wide, max_chunksize=4)
