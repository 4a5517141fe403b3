"""What methods share that follow the flow of information through the residual stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    from pisoft.models.model import LanguageModel


class FlowMethod(AttributionMethod):
    """A method of the shares of :func:`pisoft.models.flow.attention_shares`."""

    family = "attention"
    has_target = False
    needs_attention = True

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if decoder layers are not built like Llama's."""
        from pisoft.models.layers import require_closed_form

        super().check(model)
        self.prepared(model, require_closed_form)
