#!/usr/bin/env bash
# Builds what a real one-node Kubernetes 1.20 needs, out of Debian 12's archive (root): etcd and kubectl from its
# packages, the API server and the kubelet from the source of its package, which has no binaries of them. Takes about
# five minutes; does nothing when all is there. Prints the directory.
set -Eeuo pipefail

name=kubernetes
. "$(dirname "$0")/cached-build.sh"
directory=$cache/kubernetes-1.20
programs=(etcd kubectl kube-apiserver kubelet)

complete=true
for program in "${programs[@]}"; do
  [ -x "$directory/$program" ] || complete=false
done
if $complete; then
  echo "$directory"
  exit 0
fi

begin_build

compilers() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -qq --no-install-recommends golang-go dpkg-dev
}

# Unpacked, not installed: Debian's etcd would start a service.
packaged() {
  cd "$work"
  apt-get download -q etcd-server kubernetes-client
  local package
  for package in ./*.deb; do dpkg --extract "$package" unpacked; done
}

fetch_source() {
  debian_source kubernetes
  mkdir -p go/src/k8s.io/kubernetes
  tar --extract --file kubernetes_*.orig.tar.gz --directory go/src/k8s.io/kubernetes --strip-components=1
}

go_build() {
  local version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
  go build -o "$work/bin/" \
    -ldflags "-s -w -X $version.gitMajor=1 -X $version.gitMinor=20 -X $version.gitVersion=v1.20.2" "$@"
}

# The release has this generated file, the source does not. Every package that asks for it in a comment is in it.
generate_openapi() {
  go_build ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  local packages
  packages=$(find -L vendor/k8s.io pkg cmd plugin -name '*.go' |
    grep -vE '_test\.go|vendor/k8s\.io/(code-generator|sample-apiserver|kubernetes)/|/_examples/|zz_generated' |
    { xargs grep -l '+k8s:openapi-gen=' || true; } | xargs -n 1 dirname | LC_ALL=C sort -u |
    sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
  "$work/bin/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations"
}

step 'installing a Go compiler' compilers
step "unpacking Debian's etcd and kubectl" packaged
step 'fetching the source' fetch_source
# Its go.mod is too old for this compiler.
export GOPATH=$work/go GOCACHE=$work/go-cache GO111MODULE=off CGO_ENABLED=0
cd "$work/go/src/k8s.io/kubernetes"
step 'generating code' generate_openapi
step 'building the API server' go_build ./cmd/kube-apiserver
step 'building the kubelet' go_build ./cmd/kubelet

rm -rf "$directory"
mkdir "$directory"
mv "$work"/unpacked/usr/bin/{etcd,kubectl} "$work"/bin/{kube-apiserver,kubelet} "$directory"
echo "$directory"
