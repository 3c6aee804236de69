"""Checks the manifests in docker/kubernetes and docs/rollouts. Usage: kubernetes.py VERSION, in the root of the
repository, where VERSION is the version of Guarantor.

Every resource is validated against the schema of its kind, strictly: unknown fields are errors. What Kustomize
makes of the folders is computed here, for the few features that they use; where kubectl is installed, its result must
be the same."""
import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import kubernetes_validate
import yaml

ROOT = pathlib.Path("docker/kubernetes")
KUBERNETES = "1.37"
# Kinds that are not part of Kubernetes: their files are only parsed.
FOREIGN = ("monitoring.coreos.com/", "argoproj.io/", "flagger.app/")
KNOWN = {"apiVersion", "kind", "namespace", "resources", "components", "labels", "configMapGenerator"}


def load(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def validate(document, where):
    name = f'{where}: {document["kind"]} {document["metadata"]["name"]}'
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        assert document["apiVersion"].startswith(FOREIGN), f"{name}: there is no schema for {document['apiVersion']}"
    except kubernetes_validate.ValidationError as error:
        raise AssertionError(f"{name}: {error.message} at {list(error.path)}") from error


def render(folder):
    """The resources of a folder and of everything that it refers to."""
    (custom,) = load(folder / "kustomization.yaml")
    unknown = set(custom) - KNOWN
    assert not unknown, f"{folder}: teach tests/kubernetes.py what {unknown} mean"
    named, found = {"kustomization.yaml"}, []
    for resource in custom.get("resources", []) + custom.get("components", []):
        path = folder / resource
        if path.is_dir():
            found += render(path)
        else:
            named.add(resource)
            found += load(path)
    for made in custom.get("configMapGenerator", []):
        named |= set(made["files"])
        data = {file: (folder / file).read_text() for file in made["files"]}
        labels = made.get("options", {}).get("labels")
        metadata = {"name": made["name"], **({"labels": dict(labels)} if labels else {})}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    exist = {path.name for path in folder.iterdir()}
    assert named == exist, f"{folder}: kustomization.yaml and the folder differ in {named ^ exist}"
    for document in found:
        for labels in custom.get("labels", []):
            assert set(labels) == {"pairs"}, labels
            document["metadata"].setdefault("labels", {}).update(labels["pairs"])
        if "namespace" in custom and document["kind"] != "Namespace":
            document["metadata"]["namespace"] = custom["namespace"]
    return found


def by_name(documents):
    """Documents by kind and name, without the hashes that Kustomize appends to the names of ConfigMaps."""
    text = re.sub(r"(guarantor-settings)-[a-z0-9]{10}\b", r"\1", json.dumps(documents, sort_keys=True))
    return {(d["kind"], d["metadata"]["name"]): d for d in json.loads(text)}


def check_server(documents, version):
    """What the schemas cannot know: the manifests, the image and the server agree."""
    found = by_name(documents)
    servers = [document["spec"] for (kind, _), document in found.items() if kind in ("StatefulSet", "Deployment")]
    replicas = {kind for kind, _ in found} & {"Deployment"}
    assert len(servers) == (2 if replicas else 1)
    for server in servers:
        check_pod(found, server, bool(replicas), version)
    for (kind, name), document in found.items():
        spec = document.get("spec", {})
        selects = spec.get("podSelector", spec.get("selector"))
        if kind in ("NetworkPolicy", "PodDisruptionBudget", "StatefulSet", "Deployment", "Service"):
            chosen = selects if kind == "Service" else selects["matchLabels"]
            matched = [chosen.items() <= server["template"]["metadata"]["labels"].items() for server in servers]
            assert any(matched) and (all(matched) or replicas), (kind, name)
        if kind == "ServiceMonitor":
            paths = json.loads(pathlib.Path("openapi/openapi.json").read_text())["paths"]
            assert selects["matchLabels"].items() <= found["Service", "guarantor"]["metadata"]["labels"].items()
            (endpoint,) = spec["endpoints"]
            assert endpoint["path"] in paths and endpoint["port"] == "http"


def check_pod(found, server, shares, version):
    """One kind of server. `shares` says whether there are several, on one database."""
    pod = server["template"]["spec"]
    (container,) = pod["containers"]
    settings = tomllib.loads(found["ConfigMap", "guarantor-settings"]["data"]["settings.toml"])
    assert pod["terminationGracePeriodSeconds"] > 2 * settings["shutdown_seconds"]
    assert pod["enableServiceLinks"] is False, "Kubernetes would set variables that are unknown settings"
    assert server["replicas"] == (2 if shares else 1), "one process per data directory"
    assert container["image"] == f"guarantor:{version}", f"{container['image']} is not version {version}"

    image = pathlib.Path("Dockerfile").read_text()
    last = image[image.rindex("\nFROM ") :]
    user = int(re.search(r"^USER (\d+)$", last, re.M)[1])
    assert [pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")] == [user] * 3
    port = int(re.search(r"^EXPOSE (\d+)$", last, re.M)[1])
    assert container["ports"] == [{"name": "http", "containerPort": port}]
    assert found["Service", "guarantor"]["spec"]["ports"][0]["port"] == port
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["data"] == re.search(r"^VOLUME (\S+)$", last, re.M)[1]
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert env["GUARANTOR_CONFIG"] == mounts["settings"] + "/settings.toml"
    role = server["template"]["metadata"]["labels"].get("app.kubernetes.io/component")
    assert env.get("GUARANTOR_ROLE") == role and shares == ("GUARANTOR_DATABASE" in env) == ("blobs" in settings)

    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts) == set(volumes) | {
        claim["metadata"]["name"] for claim in server.get("volumeClaimTemplates", [])
    }
    keys = volumes["keys"]["secret"]
    assert keys["defaultMode"] == 0o440, "the server refuses keys that every user can read"
    files = {f'{mounts["keys"]}/{item["path"]}' for item in keys["items"]}
    assert files == {settings["signing_key_file"], settings["bootstrap_key_file"]}

    paths = json.loads(pathlib.Path("openapi/openapi.json").read_text())["paths"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in paths, probe


def main(version):
    count, folders = 0, sorted(path.parent for path in ROOT.rglob("kustomization.yaml"))
    for folder in folders:
        documents = render(folder)
        for document in documents:
            validate(copy.deepcopy(document), folder)
        count += len(documents)
        if folder.parent.name == "overlays":
            check_server(documents, version)
            if shutil.which("kubectl"):
                made = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
                assert by_name(list(yaml.safe_load_all(made.stdout))) == by_name(
                    documents
                ), f"kubectl renders {folder} differently"
            else:
                print(f"kubectl is not installed: {folder} was rendered by this script only")
    guide = pathlib.Path("docs/kubernetes.md").read_text()
    for found in re.findall(r"(?:guarantor:|newTag: )([0-9][0-9.]*[0-9])", guide):
        assert found == version, f"docs/kubernetes.md names version {found}, not {version}"
    strays = {path.parent for path in ROOT.rglob("*") if path.is_file()} - set(folders)
    assert not strays, f"no kustomization.yaml in {strays}"
    for path in sorted(pathlib.Path("docs/rollouts").glob("*.yaml")):
        for document in load(path):
            validate(document, path)
            count += 1
    # The check is able to fail.
    broken = load(ROOT / "base/statefulset.yaml")[0]
    broken["spec"]["template"]["spec"]["enableServiceLink"] = False
    try:
        validate(broken, "a typing error")
    except AssertionError:
        print(f"{count} resources are valid")
    else:
        raise AssertionError("an unknown field was not noticed")


main(sys.argv[1])
