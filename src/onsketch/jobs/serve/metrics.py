"""Figures for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
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
        self._hot: dict[tuple[str, int], tuple[Any, Any]] = {}
        """The counter and the histogram of a path and status."""
        self.registry.register(_State(service))

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        hot = self._hot.get((path, status))
        if hot is None:
            hot = self._hot[path, status] = self.requests.labels(path, str(status)), self.seconds.labels(path)
        counter, histogram = hot
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self.registry)

    def quantiles(self, path: str) -> dict[str, float]:
        """The median and the 99th percentile of a path's times, as fine as the buckets are."""
        seen = list(accumulate(bucket.get() for bucket in self.seconds.labels(path)._buckets))
        edges = (*_SECONDS, _SECONDS[-1])
        if not seen[-1]:
            return {}
        return {name: edges[bisect_left(seen, share * seen[-1])] for name, share in (("p50", 0.5), ("p99", 0.99))}


class _State:
    """Figures of the service, collected when Prometheus requests them."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        engine, waitlist = self.service.engine, self.service.waitlist
        progress = engine.model.counted().progress
        recent = engine.model.quality.figures()
        counts = waitlist.counts()
        counters = [
            ("rows", "Rows learned since the model began.", progress.rows),
            ("refused_rows", "Rows whose update was refused.", engine.refused_rows),
            ("snapshots", "Snapshots written.", engine.snapshots),
        ]
        if self.service.consumer is not None:
            counters.append(("bad_messages", "Messages of the stream that are no rows.", self.service.consumer.bad))
        gauges = [
            ("loss", "Mean loss of predictions made before learning.", progress.mean_loss),
            ("error", "Share of rows mistaken before learning.", progress.error),
            ("recent_loss", "Mean loss over the recent window.", recent["recent"]["loss"]),
            ("drift", "Recent window above the long run, in standard errors.", recent["drift"]),
            ("queue_rows", "Rows waiting to be learned.", engine.queued),
            ("ready", "1 while rows are taken.", float(engine.ready)),
            ("disk_full", "1 while the log cannot be written.", float(engine.disk_full)),
            ("unsaved_rows", "Rows since the last snapshot.", engine.unsaved_rows),
            ("labels_waiting", "Rows waiting for their labels.", counts.pop("waiting")),
        ]
        for name, words, count in counters:
            yield CounterMetricFamily(f"onsketch_{name}", words, value=count)
        for name, words, value in gauges:
            if value is not None:
                yield GaugeMetricFamily(f"onsketch_{name}", words, value=value)
        labels = CounterMetricFamily("onsketch_labels", "Delayed labels, by what became of them.", labels=["outcome"])
        for name, count in counts.items():
            labels.add_metric([name], count)
        yield labels
