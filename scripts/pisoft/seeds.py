"""Random numbers that depend only on their key, not on order, batch size, shard or device."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


def keyed_generator(*key: object) -> np.random.Generator:
    """Return a Philox generator for a key such as (seed, sample_id, step, π index, draw).

    Philox is counter-based: distinct keys give independent streams. Parts enter as text with their
    length, so different keys never collide by concatenation.
    """
    digest = blake2b(digest_size=16)
    for part in key:
        text = str(part).encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))
