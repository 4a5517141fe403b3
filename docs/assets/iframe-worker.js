// Browsers refuse workers to pages that are opened from disk, and the search needs one: there, a
// hidden frame stands for it. The theme's plugin `offline` knows this file by its name.
if (location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((done, failed) => {
      const script = frame.contentDocument.createElement("script")
      Object.assign(script, { src: new URL(url, location.href), onload: done, onerror: failed })
      frame.contentDocument.body.append(script)
    })

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.frame.contentDocument.open()
      this.frame.contentDocument.write("<body></body>")
      this.frame.contentDocument.close()
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) =>
        urls.reduce((last, next) => last.then(() => load(this.frame, next)), Promise.resolve())
      this.ready = load(this.frame, url)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
