"""What methods share that need decoder layers built as Llama's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod

if TYPE_CHECKING:
    from pisoft.models.model import LanguageModel


class ClosedFormMethod(AttributionMethod):
    """A method that computes parts of decoder layers itself."""

    needs_attention = True

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if decoder layers are not built like Llama's."""
        from pisoft.models.layers import require_closed_form

        super().check(model)
        require_closed_form(model, f"method '{self.name}'")
