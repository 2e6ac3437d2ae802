"""TensorBoard as a sink: event files that `tensorboard --logdir` reads, written without torch.

Source: the records are those of torch.utils.tensorboard's SummaryWriter (torch 2.13). A session log
marks a restart at a step, so that TensorBoard drops the points from that step on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DeviceError
from hotloop.export.trackers.sink import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.export.trackers.sink import Fact, Opening, Point

__all__ = ["open_sink"]

EXTRA = "tensorboard"


class TensorBoard:
    """A folder of event files."""

    def __init__(self, opening: Opening) -> None:
        """Open a new event file in the run's own folder; earlier points stay in the earlier files.

        Raises DeviceError when the package is missing or the folder cannot be written.
        """
        self._event = need("tensorboard.compat.proto.event_pb2", extra=EXTRA)
        self._summary = need("tensorboard.compat.proto.summary_pb2", extra=EXTRA)
        self._tensor = need("tensorboard.compat.proto.tensor_pb2", extra=EXTRA)
        writers = need("tensorboard.summary.writer.event_file_writer", extra=EXTRA)
        self.id = opening.name
        self.where = str(opening.folder / EXTRA)
        try:
            self._writer = writers.EventFileWriter(self.where)
            if opening.id is None:
                self._write_facts(opening.facts)
            else:
                self.take_back(opening.after)  # points that a killed call sent after the cursor
        except OSError as error:
            raise _failed(self.where, error) from error

    def write(self, points: Sequence[Point]) -> None:
        """Add the points, and flush them to the file."""
        value = self._summary.Summary.Value
        try:
            for point in points:
                entry = value(tag=point.name, simple_value=point.value)
                summary = self._summary.Summary(value=[entry])
                event = self._event.Event(wall_time=point.at, step=point.step, summary=summary)
                self._writer.add_event(event)
            self._writer.flush()
        except OSError as error:
            raise _failed(self.where, error) from error

    def take_back(self, after: int) -> bool:
        """Mark a restart after a step, and return True: TensorBoard drops later points."""
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        self._writer.add_event(self._event.Event(step=after + 1, session_log=start))
        self._writer.flush()
        return True

    def close(self, status: str) -> None:
        """Close the file."""
        self._writer.close()

    def _write_facts(self, facts: Mapping[str, Fact]) -> None:
        """Add the facts as a Markdown table for TensorBoard's text tab."""
        rows = "".join(f"| {key} | {_cell(value)} |\n" for key, value in facts.items())
        text = f"| setting | value |\n|---|---|\n{rows}"
        self._writer.add_event(self._event.Event(step=0, summary=self._text("run", text)))
        self._writer.flush()

    def _text(self, tag: str, text: str) -> Any:
        metadata = self._summary.SummaryMetadata
        tensor = self._tensor.TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        tensor.tensor_shape.dim.add(size=1)
        value = self._summary.Summary.Value(
            tag=f"{tag}/text_summary",
            metadata=metadata(plugin_data=metadata.PluginData(plugin_name="text")),
            tensor=tensor,
        )
        return self._summary.Summary(value=[value])


open_sink = TensorBoard


def _cell(value: Fact) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _failed(where: str, error: OSError) -> DeviceError:
    return DeviceError(f"cannot write {where}: {error.strerror or error}; free some space")
