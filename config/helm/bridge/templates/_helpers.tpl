{{- define "bridge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "bridge.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bridge.labels" -}}
{{ include "bridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "bridge.headless" -}}
{{ include "bridge.name" . }}-nodes
{{- end }}

{{- /* The name of a pod, as clients and Prometheus find it. */ -}}
{{- define "bridge.podHost" -}}
$(POD_NAME).{{ include "bridge.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "bridge.listeners" -}}
{{- $all := list }}{{ range .Values.listeners }}{{ $all = append $all (printf "%s://0.0.0.0:%d" .name (int .port)) }}{{ end }}{{ join "," $all }}
{{- end }}

{{- define "bridge.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The listener for clients outside of the cluster, as YAML: nothing if there is none. What cannot be is refused. */ -}}
{{- define "bridge.outside" -}}
{{- with .Values.outside.listener }}
{{- $found := dict }}{{ range $.Values.listeners }}{{ if eq .name $.Values.outside.listener }}{{ $found = . }}{{ end }}{{ end }}
{{- if not $found }}{{ fail (printf "outside.listener: there is no listener %s" .) }}{{ end }}
{{- if eq $.Values.outside.type "NodePort" }}
{{- if gt (int $.Values.replicas) 10 }}{{ fail "outside.type NodePort is for at most 10 replicas" }}{{ end }}
{{- if semverCompare "<1.28.0-0" $.Capabilities.KubeVersion.Version }}{{ fail "outside.type NodePort needs Kubernetes 1.28" }}{{ end }}
{{- else if not (contains "$(POD_NAME)" (default "" $found.advertised)) }}
{{- fail (printf "outside.listener: the listener %s needs an `advertised` with $(POD_NAME), a name that leads to the load balancer of that pod" .) }}
{{- end }}
{{- toYaml $found }}
{{- end }}
{{- end }}

{{- /* Where clients find the Service of the type NodePort of a pod: the tens of all these ports are the same. */ -}}
{{- define "bridge.nodePort" -}}
$(HOST_IP):{{ div (int .Values.outside.firstNodePort) 10 }}$(POD_INDEX)
{{- end }}

{{- define "bridge.advertised" -}}
{{- $root := . }}{{ $all := list }}{{ $outside := include "bridge.outside" . | fromYaml }}
{{- range .Values.listeners }}
{{- $address := printf "%s:%d" (include "bridge.podHost" $root) (int .port) }}
{{- if and (eq .name (default "" $outside.name)) (eq $root.Values.outside.type "NodePort") }}{{ $address = include "bridge.nodePort" $root }}{{ end }}
{{- $address = .advertised | default $address }}
{{- $all = append $all (printf "%s://%s" .name $address) }}
{{- end }}{{ join "," $all }}
{{- end }}

{{- define "bridge.protocols" -}}
{{- $all := list }}{{ range .Values.listeners }}{{ $all = append $all (printf "%s:%s" .name .protocol) }}{{ end }}{{ join "," $all }}
{{- end }}
