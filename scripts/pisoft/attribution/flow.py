"""Base class of methods that follow information flow through the residual stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    from pisoft.models.flow import AttentionWrite
    from pisoft.models.model import LanguageModel


class FlowMethod(AttributionMethod):
    """A method based on :func:`pisoft.models.flow.attention_shares`."""

    family = "attention"
    has_target = False
    needs_attention = True

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if a decoder layer adds its attention output in another form."""
        super().check(model)
        self.writes(model)

    def writes(self, model: LanguageModel) -> list[AttentionWrite]:
        """Return how each decoder layer adds its attention output to the residual stream."""
        from pisoft.models.flow import attention_writes

        return self.prepared(model, attention_writes)
