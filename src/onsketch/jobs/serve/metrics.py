"""Figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from onsketch.jobs.serve.service import Service

_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counters of requests, and the current state of the service."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("onsketch_requests", "Requests answered.", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "onsketch_request_seconds", "Time to answer.", ["path"], registry=self.registry, buckets=_SECONDS
        )
        self._hot: dict[tuple[str, int], Any] = {}
        self._slow: dict[str, Any] = {}
        self.registry.register(_State(service))

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        counter = self._hot.get((path, status))
        if counter is None:
            counter = self._hot[path, status] = self.requests.labels(path, str(status))
            self._slow.setdefault(path, self.seconds.labels(path))
        counter.inc()
        self._slow[path].observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self.registry)

    def quantiles(self, path: str) -> dict[str, float]:
        """The median and the 99th percentile of a path's times, as fine as the buckets are."""
        histogram = self._slow.get(path)
        if histogram is None:
            return {}
        counts = [bucket.get() for bucket in histogram._buckets]
        total = sum(counts)
        found = {}
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            seen = 0.0
            for edge, count in zip((*_SECONDS, _SECONDS[-1]), counts, strict=True):
                seen += count
                if total and seen >= share * total:
                    found[name] = edge
                    break
        return found


class _State:
    """Figures of the service, collected when Prometheus requests them."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        engine, waitlist = self.service.engine, self.service.waitlist
        progress = engine.model.progress
        yield _counter("onsketch_rows", "Rows learned since the model began.", progress.rows)
        yield _counter("onsketch_refused_rows", "Rows whose update was refused.", engine.refused_rows)
        yield _counter("onsketch_snapshots", "Snapshots written.", engine.snapshots)
        yield _gauge("onsketch_loss", "Mean loss of predictions made before learning.", progress.mean_loss)
        if progress.error is not None:
            yield _gauge("onsketch_error", "Share of rows mistaken before learning.", progress.error)
        figures = engine.model.quality.figures()
        yield _gauge("onsketch_recent_loss", "Mean loss over the recent window.", figures["recent"]["loss"])
        yield _gauge("onsketch_drift", "Recent window above the long run, in standard errors.", figures["drift"])
        yield _gauge("onsketch_queue_rows", "Rows waiting to be learned.", engine.queued)
        yield _gauge("onsketch_ready", "1 while rows are taken.", float(engine.ready))
        yield _gauge("onsketch_disk_full", "1 while the log cannot be written.", float(engine.disk_full))
        yield _gauge("onsketch_unsaved_rows", "Rows since the last snapshot.", engine.unsaved_rows)
        if self.service.consumer is not None:
            yield _counter(
                "onsketch_bad_messages", "Messages of the stream that are no rows.", self.service.consumer.bad
            )
        counts = waitlist.counts()
        yield _gauge("onsketch_labels_waiting", "Rows waiting for their labels.", counts.pop("waiting"))
        labels = CounterMetricFamily("onsketch_labels", "Delayed labels, by what became of them.", labels=["outcome"])
        for name, count in counts.items():
            labels.add_metric([name], count)
        yield labels


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _counter(name: str, words: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, value=value)
