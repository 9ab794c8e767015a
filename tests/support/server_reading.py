"""Curated lessons on a server, read as the plugin reads them."""

from __future__ import annotations

import contextlib

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.reader import CuratedReader
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_shelf import CuratedServer
from support.gate import HashEmbedder
from support.relay import Relay
from support.shelf import shelved

EMBEDDER = HashEmbedder()
MORE = shelved("Use LIMIT on big tables.", "big tables")
NAME = "sql-lessons"


def source(url, **options):
    return CuratedServer(parse_server(url), **options)


@contextlib.contextmanager
def reading(url, domains=("sql", "ops"), **options):
    reader = CuratedReader(source(url, **options), domains, Alerts())
    try:
        yield reader
    finally:
        reader.close()


@contextlib.contextmanager
def curated(url, name=NAME):
    with contextlib.closing(open_server(parse_server(url), "curated")) as client:
        yield client, client.get_collection(name, embedding_function=None)


def texts(reader):
    recall = reader.loaded.recall
    return {recall.lesson(place).lesson.text for place in range(len(recall.keys))}


def all_texts(lessons):
    return {lesson.lesson.text for lesson in lessons}


@contextlib.contextmanager
def relayed(url, server, **options):
    relay = Relay(server.base, **options)
    with relay, reading(url.replace(server.base, relay.base)) as reader:
        yield relay, reader
