"use strict";
/* Weights as text, and the models that are made of them. */
{
  const { Addition, TextAddition, Classifier } = Engine;

  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const SIXES = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, ALPHABET.indexOf(String.fromCharCode(code))));

  /** base64 -> an ArrayBuffer */
  function fromBase64(text) {
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    const bytes = new Uint8Array((text.length / 4) * 3);
    for (let k = 0, at = 0; k < text.length; k += 4) {
      const six = (n) => SIXES[text.charCodeAt(k + n)];
      const word = (six(0) << 18) | (six(1) << 12) | (six(2) << 6) | six(3);
      bytes[at++] = word >> 16;
      bytes[at++] = word >> 8;
      bytes[at++] = word;
    }
    return bytes.buffer.slice(0, bytes.length - padding);
  }

  /** base64 of 32-bit numbers -> Float64Array */
  const numbers = (text) => Float64Array.from(new Float32Array(fromBase64(text)));

  /** {kind, settings, tensors: {name: {shape, f32}} or {shape, i8, scale}} -> the model. i8: whole numbers, times a
      scale for each row. */
  function load({ kind, settings, tensors }) {
    const weights = {};
    for (const [name, { shape, f32, i8, scale }] of Object.entries(tensors)) {
      if (f32) weights[name] = numbers(f32);
      else {
        const steps = new Int8Array(fromBase64(i8));
        const scales = numbers(scale);
        const row = steps.length / shape[0];
        weights[name] = Float64Array.from(steps, (step, k) => step * scales[Math.floor(k / row)]);
      }
    }
    return new { addition: Addition, text: TextAddition, sorting: Classifier }[kind](settings, weights);
  }

  Object.assign(Engine, { load, numbers });
}
