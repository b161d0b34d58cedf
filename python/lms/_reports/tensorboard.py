"""Summaries for TensorBoard: numbers, texts and pictures in an event file.

They are written as TensorBoard's own plugins write them, through `tf.summary.write`, so that the
package `tensorboard` is not needed to make them, only to look at them.
"""

from __future__ import annotations

import io
import logging
import os
import struct
from typing import Any

import tensorflow as tf

from lms._reports.report import Report

_log = logging.getLogger("lms")
_SCALAR, _TENSOR, _IMAGES = 1, 2, 3  # SummaryMetadata.data_class


class Writer:
    """Writes into an event file in `directory`, which is made at the first summary.

    Steps are epochs, or whatever the caller counts. Nothing is kept back: what a method wrote is
    in the file when it returns.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        self._directory = os.fspath(directory)
        self._writer: Any = None
        self._said = False

    def scalar(self, tag: str, value: float, step: int) -> None:
        self._write(tag, tf.constant(float(value)), step, "scalars", _SCALAR)

    def text(self, tag: str, value: str, step: int) -> None:
        self._write(tag, tf.constant(value), step, "text", _TENSOR)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """`png`: the bytes of a file in that format, whose header tells its size."""
        width, height = struct.unpack(">II", png[16:24])
        parts = [str(width).encode(), str(height).encode(), png]
        self._write(tag, tf.constant(parts), step, "images", _IMAGES)

    def numbers(self, report: Report, step: int) -> None:
        """What the report predicts and has measured."""
        self.scalar("lms/predicted_peak_bytes", report.peak_after_bytes, step)
        self.scalar("lms/predicted_peak_bytes_stock", report.peak_before_bytes, step)
        if report.budget_bytes:
            self.scalar("lms/budget_bytes", report.budget_bytes, step)
        if report.measured_peak_bytes:
            self.scalar("lms/measured_step_peak_bytes", report.measured_peak_bytes, step)
        self.scalar("lms/predicted_time_overhead", report.predicted_time_overhead, step)

    def report(self, report: Report, step: int) -> None:
        """The report as text, its timeline as a picture.

        The picture is left out, and that said once, where matplotlib is missing.
        """
        lines = report.table().splitlines()
        self.text("lms/report", "\n".join("    " + line for line in lines), step)  # as it is
        png = self._picture(report)
        if png is not None:
            self.image("lms/timeline", png, step)

    def close(self) -> None:
        """Ends the file. A later summary begins another one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _picture(self, report: Report) -> bytes | None:
        if not any(report.timeline.values()):
            return None
        try:
            figure = report.plot()
        except ImportError as error:
            if not self._said:
                self._said = True
                _log.warning("the timeline's picture is left out of TensorBoard: %s", error)
            return None
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=110)
        return out.getvalue()

    def _write(self, tag: str, value: tf.Tensor, step: int, plugin: str, data_class: int) -> None:
        metadata = tf.compat.v1.SummaryMetadata(data_class=data_class)
        metadata.plugin_data.plugin_name = plugin
        # Summaries belong to the host, whatever device the caller is on.
        with tf.init_scope(), tf.device("cpu:0"):
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(self._directory)
            with self._writer.as_default(), tf.summary.record_if(True):
                tf.summary.write(tag, value, step=step, metadata=metadata)
            self._writer.flush()
