class Fleetwright < Formula
  desc "Plan, explain and price the nodes of Amazon EKS"
  homepage "@HOMEPAGE@"
  url "@HOMEPAGE@/releases/download/v@VERSION@/@WHEEL@"
  sha256 "@WHEEL_SHA256@"
  license "Apache-2.0"

  depends_on "uv"

  def install
    libexec.install Dir["*.whl"]
    (bin/"fleetwright").write <<~SHELL
      #!/bin/sh
      exec "#{Formula["uv"].opt_bin}/uvx" --quiet --from "#{libexec}/@WHEEL@" fleetwright "$@"
    SHELL
    (bin/"kubectl-fleetwright").write <<~SHELL
      #!/bin/sh
      exec "#{bin}/fleetwright" "$@"
    SHELL
  end

  test do
    assert_match "@PYTHON_VERSION@", shell_output("#{bin}/fleetwright --version")
  end
end
