"""DeepLIFT, as Captum computes it on decoder-only models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.base import AttributionMethod, BaselineOptions
from pisoft.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

    from pisoft.models.model import Batch, LanguageModel


# Modules of torch.nn whose derivative Captum 0.9 replaces.
RESCALED = {
    "ELU",
    "LeakyReLU",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
}


class DeepLift(AttributionMethod):
    """‖(x_i − b_i) ⊙ ∂p_t/∂x_i‖₂ over the embedding channels, b the baseline.

    Captum's rescale rule replaces the derivative of modules such as `torch.nn.ReLU`, but not of
    SiLU, RMSNorm or the functional softmax in Llama, Mistral and most others. Nothing is rescaled
    there, so DeepLIFT in Inseq and the paper *is* gradient × difference from the baseline. Models
    with modules that Captum does rescale, such as OPT, are refused: use Inseq for them
    (`method: inseq`, `options: {method: deeplift}`).
    """

    label = "DeepLIFT"
    family = "gradient"
    explains_spans = True
    reference = "Shrikumar et al. (2017), Learning important features, as in Captum"

    Options = BaselineOptions
    options: BaselineOptions

    def check(self, model: LanguageModel) -> None:
        """Raise a BenchmarkError if Captum would rescale a module of the model."""
        super().check(model)
        kinds = {type(module) for module in model.network.modules()}
        names = {kind.__name__ for kind in kinds if kind.__module__.startswith("torch.nn.")}
        if rescaled := sorted(names & RESCALED):
            raise BenchmarkError(
                f"method 'deeplift': model '{model.name}' (class {type(model.network).__name__}) "
                f"has modules that DeepLIFT rescales ({', '.join(rescaled)}); use method 'inseq' "
                "with options {method: deeplift}, which is Captum's"
            )

    def attribute(self, model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
        """Return norms of the products, one tensor (steps, prompt tokens) per sample."""
        from pisoft.models.ablation import baseline_embeddings
        from pisoft.models.gradients import embedding_gradients

        baseline = baseline_embeddings(model, batch.input_ids, self.options.baseline)
        difference = model.embed(batch.input_ids) - baseline
        steps = embedding_gradients(model, batch, self.options.attributed_function)
        return batch.split([(difference * gradients).norm(dim=-1) for gradients in steps])
